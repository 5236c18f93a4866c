//! Bytes and values of `golden/quant`: the reference's quantizer on one 8 x 1024 matrix, with and without an
//! importance matrix, its dequantization, and the dequantization of random code words. All exact.

use std::path::Path;

use gristmill_quant::{Readers, TensorType};

/// Columns of the golden matrix.
const ROW_LEN: usize = 1024;

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// Asserts equal bytes, naming the first block that differs.
fn same_blocks(ty: TensorType, what: &str, ours: &[u8], golden: &[u8]) {
    assert_eq!(ours.len(), golden.len(), "{ty} {what}");
    let size = ty.block_bytes();
    let n_wrong = ours
        .chunks(size)
        .zip(golden.chunks(size))
        .filter(|(a, b)| a != b)
        .count();
    if let Some(i) = ours
        .chunks(size)
        .zip(golden.chunks(size))
        .position(|(a, b)| a != b)
    {
        let at = i * size..(i + 1) * size;
        panic!(
            "{ty} {what}: {n_wrong} blocks differ, first {i}\n{:?}\n{:?}",
            &ours[at.clone()],
            &golden[at]
        );
    }
}

fn same_floats(ty: TensorType, what: &str, ours: &[f32], golden: &[f32]) {
    assert_eq!(ours.len(), golden.len(), "{ty} {what}");
    if let Some(i) = (0..ours.len()).find(|&i| ours[i].to_bits() != golden[i].to_bits()) {
        panic!(
            "{ty} {what}: value {i} is {:?}, golden {:?}",
            ours[i], golden[i]
        );
    }
}

fn check_encode(folder: &Path, ty: TensorType, suffix: &str, importance: Option<&[f32]>) -> usize {
    let name = ty.name().to_uppercase();
    let x = floats(&folder.join("input.f32"));
    let Ok(golden) = std::fs::read(folder.join(format!("{name}{suffix}.bin"))) else {
        if importance.is_some() && !ty.needs_importance() {
            // Where there are no bytes of their own, importance changes nothing.
            let size =
                x.len() / ROW_LEN * ty.row_bytes(ROW_LEN as u64).expect("whole blocks") as usize;
            let (mut plain, mut weighted) = (vec![0; size], vec![0; size]);
            for (importance, out) in [(None, &mut plain), (importance, &mut weighted)] {
                ty.encode(&x, ROW_LEN, importance, out)
                    .expect("the golden matrix fits");
            }
            same_blocks(ty, "with importance", &weighted, &plain);
        }
        return 0;
    };
    let mut ours = vec![0; golden.len()];
    ty.encode(&x, ROW_LEN, importance, &mut ours)
        .expect("the golden matrix fits");
    same_blocks(ty, suffix, &ours, &golden);
    check_decode(folder, ty, suffix, &golden) + 1
}

fn check_decode(folder: &Path, ty: TensorType, suffix: &str, bytes: &[u8]) -> usize {
    let path = folder.join(format!("{}{suffix}.deq.f32", ty.name().to_uppercase()));
    if !path.exists() {
        return 0;
    }
    let mut ours = vec![0.0; bytes.len() / ty.block_bytes() * ty.block_len()];
    ty.decode(bytes, &mut ours).expect("whole blocks");
    same_floats(ty, suffix, &ours, &floats(&path));
    1
}

#[test]
fn bytes_and_values_equal_the_reference() {
    let Some(folder) = gristmill_golden::folder("quant") else {
        return;
    };
    let importance = floats(&folder.join("imatrix.f32"));
    let mut n_compared = 0;
    // The reference has bytes of all types but those that it does not know.
    let known = |ty: &TensorType| ty.policy().readers != Readers::Unreleased;
    for ty in TensorType::all().filter(|ty| ty.can_encode() && known(ty)) {
        let before = n_compared;
        n_compared += check_encode(&folder, ty, "", None);
        n_compared += check_encode(&folder, ty, ".imat", Some(&importance));
        if let Ok(bytes) =
            std::fs::read(folder.join(format!("{}.rand.bin", ty.name().to_uppercase())))
        {
            n_compared += check_decode(&folder, ty, ".rand", &bytes);
        }
        assert!(
            n_compared > before || ty == gristmill_quant::F32,
            "{ty}: no golden data"
        );
    }
    // Every file was compared: none for a type that lost its encoder or a name that nobody asks for.
    let names = std::fs::read_dir(&folder).expect("it is there");
    let names = names.map(|entry| entry.expect("it can be read").file_name());
    let is_compared = |name: &str| {
        name.ends_with(".deq.f32") || (name.ends_with(".bin") && !name.ends_with(".rand.bin"))
    };
    let n_files = names
        .filter(|name| is_compared(&name.to_string_lossy()))
        .count();
    assert_eq!(n_compared, n_files);
    gristmill_golden::compared(n_compared, "bytes and values of blocks");
}
