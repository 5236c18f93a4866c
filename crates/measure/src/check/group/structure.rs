//! The container: every fault that reading meets, and what may stand in a file but should not.

use std::path::Path;

use gristmill_gguf::{Error, File};

use super::{Group, never};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "structure",
    about: "header, counts, sizes, alignment, overlap, nothing behind the end",
    codes: &[
        &ABSENT,
        &UNFINISHED,
        &NOT_GGUF,
        &VERSION,
        &TRUNCATED,
        &TENSOR_OUTSIDE,
        &COUNT,
        &KEY,
        &KEY_FORM,
        &DUPLICATE_KEY,
        &VALUE,
        &BOOL,
        &ALIGNMENT,
        &TENSOR_NAME,
        &DUPLICATE_TENSOR,
        &SHAPE,
        &TENSOR_TYPE,
        &MISALIGNED,
        &OVERLAP,
        &GLUED,
        &TRAILING,
        &PADDING,
    ],
    skip: never,
    run,
};

const DAMAGED: &str = "the file is damaged, or was made by a faulty tool; compare its hash with its source and fetch or convert it again";
const INCOMPLETE: &str =
    "the file is incomplete; compare its size and hash with its source and fetch it again";

static ABSENT: Code = Code::error(
    "unreadable",
    "there is no such file, or the system does not let it be read",
    "check the path and its permissions",
);
static UNFINISHED: Code = Code::error(
    "unfinished-edit",
    "an edit of the file was cut short, or another process is changing it",
    "any command of gristmill puts the header back, as long as the undo file lies beside it",
);
static NOT_GGUF: Code = Code::error(
    "not-gguf",
    "the file is of another kind: a web page, a pointer, an archive, a checkpoint, a format before GGUF",
    "fetch or convert a GGUF file of the model",
);
static VERSION: Code = Code::error(
    "version",
    "a version of the container that is not read",
    "update gristmill, or convert the model again",
);
static TRUNCATED: Code = Code::error(
    "truncated",
    "the file ends before its metadata and directory do",
    INCOMPLETE,
);
static TENSOR_OUTSIDE: Code = Code::error(
    "tensor-outside",
    "a tensor lies behind the end of the file",
    INCOMPLETE,
);
static COUNT: Code = Code::error(
    "count",
    "a count in the header that cannot be true",
    DAMAGED,
);
static KEY: Code = Code::error("key", "a key that cannot be one", DAMAGED);
pub(crate) static KEY_FORM: Code = Code::error(
    "key-form",
    "a key that is not ASCII or longer than 65535 bytes, which the specification forbids and llama.cpp takes",
    DAMAGED,
);
static DUPLICATE_KEY: Code = Code::error("duplicate-key", "a key that is there twice", DAMAGED);
static VALUE: Code = Code::error("value", "a metadata value that cannot be read", DAMAGED);
pub(crate) static BOOL: Code = Code::error(
    "bool",
    "a truth value that is neither 0 nor 1, which llama.cpp takes for true",
    DAMAGED,
);
static ALIGNMENT: Code = Code::error(
    "alignment",
    "general.alignment is not a UINT32 that is a multiple of 8",
    DAMAGED,
);
static TENSOR_NAME: Code = Code::error("tensor-name", "a tensor name that cannot be one", DAMAGED);
static DUPLICATE_TENSOR: Code = Code::error("duplicate-tensor", "two tensors of one name", DAMAGED);
static SHAPE: Code = Code::error(
    "shape",
    "dimensions that no tensor has, or rows that are not whole blocks",
    DAMAGED,
);
static TENSOR_TYPE: Code = Code::error(
    "tensor-type",
    "a tensor type that is not known, or was withdrawn",
    "update gristmill, or fetch the file again",
);
static MISALIGNED: Code = Code::error(
    "misaligned",
    "a tensor that does not start on the alignment",
    DAMAGED,
);
static OVERLAP: Code = Code::error("overlap", "two tensors share bytes", DAMAGED);
static GLUED: Code = Code::warning(
    "glued",
    "another GGUF file follows behind the end of this one",
    "readers take the first file and pass over the rest; shards are not put together by appending them: get them back as files of their own and use `gristmill merge`",
);
static TRAILING: Code = Code::warning(
    "trailing-bytes",
    "bytes behind the last tensor that belong to nothing",
    "harmless to readers; a download that was resumed wrongly, or data hidden in the file: compare its size and hash with its source",
);
static PADDING: Code = Code::note(
    "padding",
    "the padding before the tensor data is not zero",
    "the specification asks for zero bytes; no reader minds",
);

/// The code under which a fault of reading is reported.
fn code_of(error: &Error) -> &'static Code {
    use Error::*;
    match error {
        Io { .. } | NotFound { .. } | IsFolder { .. } | NotRegular { .. } => &ABSENT,
        UnfinishedEdit { .. }
        | Unrestored { .. }
        | HeaderLost { .. }
        | RestoreFailed { .. }
        | UndoMissing { .. }
        | Busy { .. } => &UNFINISHED,
        Empty { .. } | HtmlPage { .. } | LfsPointer { .. } | Compressed { .. } => &NOT_GGUF,
        Legacy { .. } | Safetensors { .. } | PyTorch { .. } | NotGguf { .. } => &NOT_GGUF,
        Version1 { .. } | NewerVersion { .. } | BadVersion { .. } => &VERSION,
        BadCount { .. } => &COUNT,
        BadKey { reason, .. } if reason == "empty key" => &KEY,
        BadKey { .. } => &KEY_FORM,
        DuplicateKey { .. } => &DUPLICATE_KEY,
        BadValue { reason, .. } if reason.starts_with("a BOOL of ") => &BOOL,
        BadValue { .. } => &VALUE,
        BadAlignment { .. } => &ALIGNMENT,
        BadTensorName { .. } => &TENSOR_NAME,
        DuplicateTensor { .. } => &DUPLICATE_TENSOR,
        BadShape { .. } => &SHAPE,
        UnknownTensorType { .. } | RemovedTensorType { .. } => &TENSOR_TYPE,
        Misaligned { .. } => &MISALIGNED,
        Overlap { .. } => &OVERLAP,
        // What ends reading for any other reason ends it too early.
        _ => &TRUNCATED,
    }
}

fn place_of(error: &Error) -> Place {
    use Error::*;
    match error {
        Truncated { offset, .. } | BadCount { offset, .. } => Place::whole().at_byte(*offset),
        BadKey { offset, .. } => Place::whole().at_byte(*offset),
        DuplicateKey { key, offset, .. } | BadValue { key, offset, .. } => {
            Place::key(key).at_byte(*offset)
        }
        BadAlignment { .. } => Place::key("general.alignment"),
        BadTensorName { offset, .. } => Place::whole().at_byte(*offset),
        DuplicateTensor { tensor, offset, .. } | UnknownTensorType { tensor, offset, .. } => {
            Place::tensor(tensor).at_byte(*offset)
        }
        BadShape { tensor, .. } | RemovedTensorType { tensor, .. } => Place::tensor(tensor),
        Misaligned { tensor, .. } => Place::tensor(tensor),
        Overlap { second, .. } => Place::tensor(second),
        _ => Place::whole(),
    }
}

/// The words of an error without the path they begin with: the report names the file.
pub(crate) fn without_path(error: &Error, path: &Path) -> String {
    let text = error.to_string();
    let prefix = format!("{}: ", path.display());
    text.strip_prefix(&prefix).unwrap_or(&text).to_owned()
}

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    for examined in &subject.files {
        let path = &examined.path;
        let place = |place: Place| {
            if subject.is_set() {
                place.in_file(path)
            } else {
                place
            }
        };
        let faults = &examined.survey.faults;
        cut(faults, &place, findings);
        let others = faults
            .iter()
            .filter(|fault| !matches!(fault, Error::TensorOutsideFile { .. }));
        for fault in others {
            let code = code_of(fault);
            let finding = code.find(place(place_of(fault)), without_path(fault, path));
            findings.push(match fault.hint() {
                Some(hint) => finding.with_remedy(hint),
                None => finding,
            });
        }
        if let Some(file) = examined
            .survey
            .file
            .as_ref()
            .filter(|_| examined.survey.faults.is_empty())
        {
            behind_the_end(file, &place, findings);
            padding(file, &place, findings);
        }
    }
    Ok(())
}

/// Tensors behind the end: most often the file was cut, so one finding tells of all.
fn cut(faults: &[Error], place: &dyn Fn(Place) -> Place, findings: &mut Findings) {
    let outside = faults.iter().filter_map(|fault| match fault {
        Error::TensorOutsideFile {
            tensor, end, size, ..
        } => Some((tensor, *end, *size)),
        _ => None,
    });
    let Some((first, needed, size)) = outside.clone().min_by_key(|(_, end, _)| *end) else {
        return;
    };
    let n_tensors = outside.clone().count();
    let last = outside.map(|(_, end, _)| end).max().unwrap_or(needed);
    let text = if n_tensors == 1 {
        format!("{first} ends at byte {last}, but the file has {size}")
    } else {
        format!(
            "{n_tensors} tensors from {first} on lie behind the end: they need {last} bytes, but the file has {size}"
        )
    };
    findings.add(&TENSOR_OUTSIDE, place(Place::tensor(first)), text);
}

/// Bytes behind the last tensor and its padding.
fn behind_the_end(file: &File, place: &dyn Fn(Place) -> Place, findings: &mut Findings) {
    // Both were checked to lie inside the file.
    let ends = file
        .tensors()
        .iter()
        .map(|tensor| tensor.offset + tensor.bytes);
    let end = file.data_offset() + ends.max().unwrap_or(0);
    let padded = end.next_multiple_of(file.alignment());
    if file.size() <= padded {
        return;
    }
    let n_bytes = file.size() - padded;
    let place = place(Place::whole().at_byte(padded));
    // In a file without tensors the padding may have been left out.
    let starts = [end, padded].map(|start| file.bytes().get(start as usize..));
    if starts
        .iter()
        .flatten()
        .any(|rest| rest.starts_with(b"GGUF"))
    {
        findings.add(
            &GLUED,
            place,
            format!("another GGUF file of up to {n_bytes} bytes begins behind the last tensor"),
        );
    } else {
        findings.add(
            &TRAILING,
            place,
            format!("{n_bytes} bytes follow behind the last tensor"),
        );
    }
}

/// The bytes between directory and data.
fn padding(file: &File, place: &dyn Fn(Place) -> Place, findings: &mut Findings) {
    let (start, end) = (file.directory_end(), file.data_offset());
    let bytes = file.bytes().get(start as usize..end as usize);
    let dirty = bytes.and_then(|bytes| bytes.iter().position(|&byte| byte != 0));
    if let Some(at) = dirty {
        let at = start + at as u64;
        findings.add(
            &PADDING,
            place(Place::whole().at_byte(at)),
            format!(
                "a byte of the padding before the tensor data is {:#04x}, not 0",
                file.bytes()[at as usize]
            ),
        );
    }
}
