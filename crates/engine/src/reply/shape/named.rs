//! Calls whose name stands between marks, with one object of JSON behind it: `<function=NAME>{…}</function>`.

use crate::reply::scan::{Parsed, Scan, Stop};

/// What stands around names and arguments.
#[derive(Clone, Copy)]
pub struct Named {
    /// Marks of which one begins a section of calls; none where each call stands alone.
    pub section: &'static [&'static str],
    /// Marks of which one begins a call.
    pub open: &'static [&'static str],
    /// The mark between an id and the name, where the call begins with an id.
    pub id_end: Option<&'static str>,
    /// The mark behind the name.
    pub name_end: &'static str,
    /// The mark between name and an id behind it, where there is one.
    pub id_start: Option<&'static str>,
    /// What may stand before the arguments.
    pub before: &'static [&'static str],
    /// What ends a call; a model may leave it out.
    pub close: &'static [&'static str],
    /// What ends the section.
    pub section_end: &'static str,
    /// Makes id and name of what stands before the arguments.
    pub split: fn(&str) -> (Option<&str>, &str),
}

/// The text is the name.
pub fn plain(text: &str) -> (Option<&str>, &str) {
    (None, text)
}

impl Named {
    /// A call that stands alone.
    pub const fn alone(
        open: &'static [&'static str],
        name_end: &'static str,
        close: &'static [&'static str],
    ) -> Self {
        Named {
            section: &[],
            open,
            id_end: None,
            name_end,
            id_start: None,
            before: &[],
            close,
            section_end: "",
            split: plain,
        }
    }

    /// Parses a call, or a section of them.
    pub fn parse(&self, scan: &mut Scan) -> Parsed<()> {
        if !self.section.is_empty() && scan.has_any(self.section)? {
            scan.space();
        }
        if !scan.has_any(self.open)? {
            return Err(Stop::Bad);
        }
        loop {
            self.call(scan)?;
            if self.section.is_empty() {
                return Ok(());
            }
            scan.space();
            if scan.has(self.section_end)? || !scan.has_any(self.open)? {
                return Ok(());
            }
        }
    }

    fn call(&self, scan: &mut Scan) -> Parsed<()> {
        scan.begin();
        if let Some(id_end) = self.id_end {
            scan.call().id = Some(scan.name_until(id_end)?.to_owned());
        }
        let mut text = scan.name_until(self.name_end)?;
        if let Some((name, id)) = self.id_start.and_then(|start| text.split_once(start)) {
            scan.call().id = Some(id.to_owned());
            text = name;
        }
        let (id, name) = (self.split)(text);
        if let Some(id) = id {
            scan.call().id = Some(id.to_owned());
        }
        if name.is_empty() {
            return Err(Stop::Bad);
        }
        scan.call().name = Some(name.to_owned());
        scan.space();
        if !self.before.is_empty() && scan.has_any(self.before)? {
            scan.space();
        }
        scan.arguments()?;
        scan.end()?;
        for mark in self.close {
            scan.close(mark)?;
        }
        Ok(())
    }
}
