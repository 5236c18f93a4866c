//! Calls that are objects of JSON with the function's name inside: `{"name": …, "arguments": {…}}`.

use crate::reply::scan::{Parsed, Scan, Stop};

/// Keys of the name, of the arguments and of the id. One that no call has means none.
const NAME_KEYS: &[&str] = &["name", "tool_name"];
const ARGUMENT_KEYS: &[&str] = &["arguments", "parameters"];
const ID_KEYS: &[&str] = &["id", "tool_call_id", "call_id"];

/// What stands around the objects.
#[derive(Clone, Copy)]
pub struct Objects {
    /// Marks of which one begins the calls.
    pub open: &'static [&'static str],
    /// What may stand between that mark and the first object.
    pub before: &'static [&'static str],
    /// The mark that ends them; a model may leave it out.
    pub close: &'static str,
    /// Whether the name has to be one of the functions', since nothing but the object tells a call from text.
    pub known_only: bool,
    /// Whether the object is `{NAME: {…}}`.
    pub name_is_key: bool,
}

impl Objects {
    /// A mark before and one behind.
    pub const fn between(open: &'static [&'static str], close: &'static str) -> Self {
        Objects {
            open,
            before: &[],
            close,
            known_only: false,
            name_is_key: false,
        }
    }

    /// Parses one object, a list of them, or several one after another.
    pub fn parse(&self, scan: &mut Scan) -> Parsed<()> {
        if !scan.has_any(self.open)? {
            return Err(Stop::Bad);
        }
        scan.space();
        if !self.before.is_empty() && scan.has_any(self.before)? {
            scan.space();
        }
        self.bare(scan)
    }

    /// The objects without the mark before them.
    pub fn bare(&self, scan: &mut Scan) -> Parsed<()> {
        if scan.has("[")? {
            self.list(scan)?;
        } else {
            self.object(scan)?;
            while !self.close.is_empty() && self.goes_on(scan)? {
                self.object(scan)?;
            }
        }
        if self.close.is_empty() {
            return Ok(());
        }
        scan.close(self.close)
    }

    /// Whether another object follows behind white space.
    fn goes_on(&self, scan: &mut Scan) -> Parsed<bool> {
        let mut ahead = scan.ahead();
        ahead.space();
        match ahead.rest().chars().next() {
            Some('{') => {
                scan.space();
                Ok(true)
            }
            None if !ahead.is_end() => Err(Stop::More),
            _ => Ok(false),
        }
    }

    fn list(&self, scan: &mut Scan) -> Parsed<()> {
        loop {
            scan.space();
            self.object(scan)?;
            scan.space();
            if scan.has("]")? {
                return Ok(());
            }
            scan.mark(",")?;
        }
    }

    fn object(&self, scan: &mut Scan) -> Parsed<()> {
        scan.begin();
        match self.name_is_key {
            true => keyed(scan)?,
            false => self.members(scan)?,
        }
        scan.end()
    }

    fn members(&self, scan: &mut Scan) -> Parsed<()> {
        scan.mark("{")?;
        loop {
            scan.space();
            let key = scan.string()?;
            colon(scan)?;
            match key.as_str() {
                key if NAME_KEYS.contains(&key) => {
                    let name = scan.string()?;
                    if self.known_only && !scan.tools().has(&name) {
                        return Err(Stop::Bad);
                    }
                    scan.call().name = Some(name);
                }
                key if ARGUMENT_KEYS.contains(&key) => scan.arguments()?,
                // An id that comes behind the name comes too late: the call is known by another one then.
                key if ID_KEYS.contains(&key) && scan.call().name.is_none() => {
                    scan.call().id = id(scan)?;
                }
                "function" if scan.rest().starts_with('{') => self.members(scan)?,
                "type" | "function" => scan.skip_value()?,
                _ if self.known_only && scan.call().name.is_none() => return Err(Stop::Bad),
                _ => scan.skip_value()?,
            }
            scan.space();
            if scan.has("}")? {
                return Ok(());
            }
            scan.mark(",")?;
        }
    }
}

/// An id: a string, or another value that counts for none.
fn id(scan: &mut Scan) -> Parsed<Option<String>> {
    if scan.rest().starts_with('"') {
        return scan.string().map(Some);
    }
    scan.skip_value()?;
    Ok(None)
}

/// `{NAME: ARGUMENTS}`
fn keyed(scan: &mut Scan) -> Parsed<()> {
    scan.mark("{")?;
    scan.space();
    let name = scan.string()?;
    scan.call().name = Some(name);
    colon(scan)?;
    scan.arguments()?;
    scan.space();
    scan.mark("}")
}

fn colon(scan: &mut Scan) -> Parsed<()> {
    scan.space();
    scan.mark(":")?;
    scan.space();
    if scan.rest().is_empty() {
        return Err(Stop::More);
    }
    Ok(())
}
