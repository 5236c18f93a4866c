//! The size of the house in figures, to look at: `cargo test --workspace --test tidy measures -- --show-output`.

use super::source::Source;

/// The middle, the 99th percentile and the largest.
fn spread(mut values: Vec<usize>) -> String {
    values.sort_unstable();
    let at = |share: usize| values.get((values.len().saturating_sub(1)) * share / 100);
    let [middle, high, most] = [50, 99, 100].map(|share| at(share).copied().unwrap_or_default());
    format!("{middle} / {high} / {most} ({})", values.len())
}

fn count(sources: &[Source], words: &[&str], in_tests: bool) -> usize {
    let of_file = |source: &Source| {
        let places = words.iter().flat_map(|word| source.words(word));
        places.filter(|at| source.is_test(*at) == in_tests).count()
    };
    sources.iter().map(of_file).sum()
}

#[test]
fn measures() {
    let sources = super::sources(&super::root());
    let (mut code, mut tests, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for source in &sources {
        files.push(source.code.lines().count());
        for function in source.functions() {
            let lengths = if function.is_test {
                &mut tests
            } else {
                &mut code
            };
            lengths.push(function.n_lines);
        }
    }
    println!("median / 99th percentile / longest (number)");
    println!("lines of a function: {}", spread(code));
    println!("lines of a test function: {}", spread(tests));
    println!("lines of a file: {}", spread(files));
    println!(
        "unsafe outside tests: {}",
        count(&sources, &["unsafe"], false)
    );
    println!(
        "unwrap, expect, panic, unreachable outside tests, each under its proof: {}",
        count(&sources, super::PANICKING, false)
    );
}

#[test]
fn a_spread_is_of_sorted_values() {
    assert_eq!(spread((1..=100).rev().collect()), "50 / 99 / 100 (100)");
    assert_eq!(spread(Vec::new()), "0 / 0 / 0 (0)");
}
