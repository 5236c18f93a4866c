//! The parser of an answer: marks in a growing text.

use super::scan::{Call, Scan, Stop};
use super::{Reasoning, ReasoningForm, ReplyEvent, ReplyFormat};

/// Where the parser stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Content,
    Reasoning,
    /// In what may be a call: where its mark begins in the buffer, and the mark's length.
    Call(usize, usize),
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Nothing,
    ReasoningStart,
    ReasoningEnd,
    Call,
}

/// A mark that was found.
struct Found {
    start: usize,
    length: usize,
    meaning: Meaning,
}

/// Takes an answer apart.
pub struct ReplyParser {
    format: ReplyFormat,
    place: Place,
    /// Text that is not decided yet.
    buffer: String,
    /// Bytes at the front of the buffer that the prompt brought.
    n_lead: usize,
    /// Whether white space is passed over, since a mark stood before it.
    skips_space: bool,
    /// Whether content was said since the beginning, or since the last call.
    has_content: bool,
    /// Whether anything but reasoning came.
    has_begun: bool,
    /// Calls that began.
    n_calls: usize,
    /// Of the section at hand: calls that ended.
    n_ended: usize,
    /// Bytes of the open call's arguments that were told, if it began.
    open: Option<usize>,
    /// The number in the next id that is made up.
    next_id: usize,
    /// How long the buffer has to be for the call at hand to be read again.
    n_next_read: usize,
    /// Bytes of calls that were read, again and again.
    #[cfg(test)]
    pub(super) n_read: usize,
}

/// Up to this length a call is read again with each piece of it.
const SHORT_CALL_BYTES: usize = 1024;
/// A longer one whenever it has grown by one part of so many, so that the whole takes time that grows with its length.
const GROWTH_PARTS: usize = 16;

impl ReplyParser {
    /// A parser of the answer to a prompt, whose end belongs to the answer in some families. Ids that are made up are
    /// numbered from `first_id`.
    pub fn new(format: ReplyFormat, prompt: &str, first_id: usize) -> Self {
        let mut lead = "";
        if prompt.trim_end().ends_with(format.family.lead) {
            lead = format.family.lead;
        }
        if format.form != ReasoningForm::Content && format.is_open(prompt) {
            lead = format.reasoning.start;
        }
        ReplyParser {
            format,
            place: Place::Content,
            buffer: lead.to_owned(),
            n_lead: lead.len(),
            skips_space: !lead.is_empty(),
            has_content: false,
            has_begun: false,
            n_calls: 0,
            n_ended: 0,
            open: None,
            next_id: first_id,
            n_next_read: 0,
            #[cfg(test)]
            n_read: 0,
        }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, piece: &str, out: &mut Vec<ReplyEvent>) {
        self.buffer.push_str(piece);
        self.go(false, out);
    }

    /// The end of the answer: what is open now stays so.
    pub fn finish(&mut self, out: &mut Vec<ReplyEvent>) {
        self.go(true, out);
    }

    /// Whether the answer stands in its reasoning now.
    pub fn is_reasoning(&self) -> bool {
        self.place == Place::Reasoning
    }

    fn go(&mut self, is_all: bool, out: &mut Vec<ReplyEvent>) {
        while match self.place {
            Place::Call(start, length) => self.call(start, length, is_all, out),
            Place::Content | Place::Reasoning => self.text(is_all, out),
        } {}
    }

    /// Text up to the next mark; says whether there is more to do.
    fn text(&mut self, is_all: bool, out: &mut Vec<ReplyEvent>) -> bool {
        let found = match self.find(is_all) {
            Ok(found) => found,
            Err(n_free) => {
                let free = &self.buffer[..n_free];
                let n = if is_all {
                    n_free
                } else {
                    free.trim_end().len()
                };
                self.tell(n, out);
                if is_all {
                    self.buffer.clear();
                }
                return false;
            }
        };
        let before = self.buffer[..found.start].trim_end().len();
        self.tell(before, out);
        let start = found.start - before;
        match found.meaning {
            Meaning::Call => {
                self.n_ended = 0;
                self.n_next_read = 0;
                self.place = Place::Call(start, found.length);
                return true;
            }
            Meaning::ReasoningStart => self.place = Place::Reasoning,
            Meaning::ReasoningEnd => self.place = Place::Content,
            Meaning::Nothing => {}
        }
        if self.format.form == ReasoningForm::Both && found.meaning != Meaning::Nothing {
            let mark = self.buffer[start..start + found.length].to_owned();
            out.push(ReplyEvent::Content(mark));
        }
        self.drop_front(start + found.length);
        self.skips_space = true;
        true
    }

    /// The next mark, or how many bytes are free of any.
    fn find(&self, is_all: bool) -> Result<Found, usize> {
        let buffer = self.buffer.as_str();
        let marks = self.marks();
        let is_word = |c: char| !c.is_whitespace();
        let words_from = buffer[self.n_lead..]
            .find(is_word)
            .map(|at| at + self.n_lead);
        for (at, _) in buffer.char_indices() {
            let rest = &buffer[at..];
            let is_blank = !self.has_content && words_from.is_none_or(|from| at <= from);
            let possible = marks.iter().filter(|(_, _, always)| *always || is_blank);
            let mut longest: Option<Found> = None;
            for &(mark, meaning, _) in possible {
                if !is_all && mark.len() > rest.len() && mark.starts_with(rest) {
                    return Err(at);
                }
                let is_longer = longest
                    .as_ref()
                    .is_none_or(|found| found.length < mark.len());
                if rest.starts_with(mark) && is_longer {
                    longest = Some(Found {
                        start: at,
                        length: mark.len(),
                        meaning,
                    });
                }
            }
            if let Some(found) = longest {
                return Ok(found);
            }
        }
        Err(buffer.len())
    }

    /// The marks that count here, and whether each counts behind content too.
    fn marks(&self) -> Vec<(&'static str, Meaning, bool)> {
        let Reasoning { start, end } = self.format.reasoning;
        let family = self.format.family;
        let mut marks = Vec::new();
        if self.place == Place::Reasoning {
            marks.push((end, Meaning::ReasoningEnd, true));
            return marks;
        }
        if self.format.form != ReasoningForm::Content {
            marks.push((start, Meaning::ReasoningStart, family.thinks_anywhere));
        }
        let dropped = family.dropped.iter();
        marks.extend(dropped.map(|mark| (*mark, Meaning::Nothing, true)));
        if !self.format.tools.is_empty() {
            let calls = family.calls.iter();
            marks.extend(calls.map(|mark| (*mark, Meaning::Call, true)));
            if !self.has_begun {
                let first = family.first_calls.iter();
                marks.extend(first.map(|mark| (*mark, Meaning::Call, false)));
            }
        }
        marks
    }

    /// Tells the first bytes of the buffer as text.
    fn tell(&mut self, n: usize, out: &mut Vec<ReplyEvent>) {
        let mut text = &self.buffer[self.n_lead.min(n)..n];
        if self.skips_space {
            text = text.trim_start();
        }
        let text = text.to_owned();
        self.drop_front(n);
        if text.is_empty() {
            return;
        }
        self.skips_space = false;
        if self.place == Place::Reasoning {
            if self.format.form == ReasoningForm::Both {
                out.push(ReplyEvent::Content(text.clone()));
            }
            out.push(ReplyEvent::Reasoning(text));
        } else {
            self.has_content |= !text.trim().is_empty();
            self.has_begun |= self.has_content;
            out.push(ReplyEvent::Content(text));
        }
    }

    fn drop_front(&mut self, n: usize) {
        self.buffer.drain(..n);
        self.n_lead = self.n_lead.saturating_sub(n);
    }

    /// Reads on in what may be a call; says whether there is more to do.
    fn call(
        &mut self,
        start: usize,
        length: usize,
        is_all: bool,
        out: &mut Vec<ReplyEvent>,
    ) -> bool {
        if !is_all && self.buffer.len() < self.n_next_read {
            return false;
        }
        let n_call = self.buffer.len() - start;
        self.n_next_read =
            self.buffer.len() + n_call.saturating_sub(SHORT_CALL_BYTES) / GROWTH_PARTS;
        #[cfg(test)]
        {
            self.n_read += n_call;
        }
        let tools = self.format.tools.clone();
        let buffer = std::mem::take(&mut self.buffer);
        let mut scan = Scan::new(&buffer[start..], is_all, &tools);
        let result = (self.format.family.parse)(&mut scan);
        for call in scan.calls().iter().skip(self.n_ended) {
            self.tell_call(call, out);
        }
        let ended = scan.calls().iter().filter_map(|call| call.end).max();
        let at = scan.at();
        self.buffer = buffer;
        match (result, ended) {
            (Err(Stop::More), _) if !is_all => return false,
            (Ok(()), _) => self.leave_call(start + at),
            (Err(_), Some(end)) => {
                self.fail(out);
                self.leave_call(start + end);
            }
            (Err(_), None) => {
                // No call at all: the mark is text, and so may be what follows.
                self.fail(out);
                self.place = Place::Content;
                self.tell(start + length, out);
                self.has_content = true;
                self.has_begun = true;
            }
        }
        true
    }

    /// Tells what is new of a call.
    fn tell_call(&mut self, call: &Call, out: &mut Vec<ReplyEvent>) {
        let Some(name) = &call.name else { return };
        if self.open.is_none() {
            self.begin(call.id.clone(), name.clone(), out);
        }
        let index = self.n_calls - 1;
        let told = self.open.unwrap_or(0);
        if call.arguments.len() > told {
            let text = call.arguments[told..].to_owned();
            out.push(ReplyEvent::Arguments { index, text });
            self.open = Some(call.arguments.len());
        }
        if call.end.is_some() {
            self.open = None;
            self.n_ended += 1;
            out.push(ReplyEvent::CallEnd { index });
        }
    }

    /// The open call is none.
    fn fail(&mut self, out: &mut Vec<ReplyEvent>) {
        if self.open.take().is_some() {
            let index = self.n_calls - 1;
            out.push(ReplyEvent::CallFailed { index });
        }
    }

    fn begin(&mut self, id: Option<String>, name: String, out: &mut Vec<ReplyEvent>) {
        let index = self.n_calls;
        self.n_calls += 1;
        self.open = Some(0);
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| {
            self.next_id += 1;
            format!("call{:05}", self.next_id - 1)
        });
        out.push(ReplyEvent::CallStart { index, id, name });
    }

    /// Goes on behind calls.
    fn leave_call(&mut self, n: usize) {
        self.drop_front(n);
        self.place = Place::Content;
        self.skips_space = true;
        self.has_content = false;
        self.has_begun = true;
    }
}
