//! What the families share whose answers are messages on channels:
//! `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>`.

use crate::reply::scan::{Parsed, Scan, Stop};

/// Words behind the recipient: channels, and the form of the arguments.
const HEADER: &[&str] = &["commentary", "analysis", "json", "code"];

/// A call; its recipient stands in the header, behind the role or behind the channel.
pub fn parse(scan: &mut Scan) -> Parsed<()> {
    scan.until("to=functions.")?;
    let rest = scan.rest();
    let end = rest.find([' ', '<', '\n']).ok_or(Stop::More)?;
    if end == 0 {
        return Err(Stop::Bad);
    }
    scan.begin();
    scan.call().name = Some(rest[..end].to_owned());
    scan.advance(end);
    let header = scan.until("<|message|>")?;
    let header = header
        .replace("<|channel|>", " ")
        .replace("<|constrain|>", " ");
    if !header.split_whitespace().all(|word| HEADER.contains(&word)) {
        return Err(Stop::Bad);
    }
    scan.space();
    scan.arguments()?;
    scan.end()?;
    scan.close("<|call|>")
}
