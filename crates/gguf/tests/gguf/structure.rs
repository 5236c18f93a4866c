//! Header, directory and alignment: each case from real use with its right value.

use gristmill_gguf::{Endian, Error, File};

use crate::bytes::{Bytes, F32, Q4_0, Q4_K, Q8_0, open, sample};

/// Data for a file whose tensors are the two of 32 bytes that most cases use.
fn two_small() -> Bytes {
    Bytes::new()
        .tensor("one", &[8], F32, 0)
        .tensor("two", &[8], F32, 32)
        .data(&[7; 64])
}

#[test]
fn a_good_file_opens() {
    let file = sample().open().unwrap();
    assert_eq!(
        (file.version(), file.endian(), file.alignment()),
        (3, Endian::Little, 32)
    );
    assert_eq!(file.metadata().len(), 25);
    let two = file.tensor("two").unwrap();
    assert_eq!(
        (two.dims.as_slice(), two.offset, two.bytes),
        (&[32u64][..], 64, 34)
    );
    assert_eq!(file.data(two), (64u8..98).collect::<Vec<u8>>());
    assert_eq!(file.data_offset() % 32, 0);
    assert_eq!(file.size(), file.data_offset() + 128);
}

#[test]
fn version_2_reads_as_version_3() {
    let mut bytes = sample();
    bytes.version = 2;
    assert_eq!(bytes.open().unwrap().version(), 2);
}

#[test]
fn b01_sizes_that_wrap_are_refused() {
    let wraps = Bytes::new()
        .tensor("w", &[u64::MAX, 2], F32, 0)
        .data(&[0; 64])
        .error();
    assert!(
        wraps.contains("\"w\"") && wraps.contains("[18446744073709551615, 2]"),
        "{wraps}"
    );
    // A good tensor with one dimension replaced: 8 × (2^42 + 1) × 4 bytes.
    let large = Bytes::new()
        .tensor("w", &[8, (1 << 42) + 1], F32, 0)
        .data(&[0; 64])
        .error();
    assert!(large.contains("\"w\" ends at byte 140737488355"), "{large}");
    // Elements fit in 63 bits, bytes do not.
    let bytes = Bytes::new()
        .tensor("w", &[1 << 31, 1 << 30], F32, 0)
        .data(&[0; 64])
        .error();
    assert!(
        bytes.contains("size in bytes") && bytes.contains("63 bits"),
        "{bytes}"
    );
    // Each fits; the place of the second plus its size wraps.
    let sum = Bytes::new()
        .tensor("a", &[8], F32, 0)
        .tensor("b", &[8], F32, u64::MAX - 31)
        .data(&[0; 64]);
    assert!(
        matches!(sum.open(), Err(Error::TensorOutsideFile { .. })),
        "{}",
        sum.error()
    );
    let elements = Bytes::new()
        .tensor("w", &[1 << 32, 1 << 31], F32, 0)
        .data(&[0; 64])
        .error();
    assert!(elements.contains("number of elements"), "{elements}");
}

#[test]
fn b04_a_tensor_has_one_to_four_dimensions() {
    for n_dims in [0u32, 5, 9, u32::MAX] {
        let bytes = Bytes::new();
        let entry = [bytes.string(b"odd"), bytes.u32(n_dims), vec![0; 200]].concat();
        let message = bytes.raw_tensor(entry).error();
        assert!(
            message.contains(&format!("\"odd\": {n_dims} dimensions")),
            "{message}"
        );
    }
    assert!(
        Bytes::new()
            .tensor("four", &[2, 2, 2, 2], F32, 0)
            .data(&[0; 64])
            .open()
            .is_ok()
    );
    let zero = Bytes::new()
        .tensor("none", &[8, 0], F32, 0)
        .data(&[0; 64])
        .error();
    assert!(
        zero.contains("\"none\": a dimension of [8, 0] is zero"),
        "{zero}"
    );
}

#[test]
fn b05_alignment_is_a_positive_multiple_of_eight() {
    for alignment in [0, 7, 12, 33] {
        let message = two_small()
            .entry_u32("general.alignment", alignment)
            .error();
        assert!(
            message.contains(&format!("general.alignment is UINT32 {alignment};")),
            "{message}"
        );
    }
    let signed = two_small()
        .entry("general.alignment", 5, &32i32.to_le_bytes())
        .error();
    assert!(
        signed.contains("general.alignment is INT32 32; it must be a UINT32"),
        "{signed}"
    );
    let text = two_small().entry_string("general.alignment", b"32").error();
    assert!(text.contains("general.alignment is STRING;"), "{text}");

    // Legal by the specification, though the reference wants a power of two.
    let mut odd = Bytes::new()
        .entry_u32("general.alignment", 24)
        .tensor("one", &[6], F32, 0);
    odd = odd.tensor("two", &[6], F32, 24).data(&[7; 48]);
    odd.alignment = 24;
    assert_eq!(odd.open().unwrap().alignment(), 24);

    let mut coarse = two_small().entry_u32("general.alignment", 64);
    coarse.alignment = 64;
    let message = coarse.error();
    assert!(
        message.contains("\"two\": offset 32 is not a multiple of the alignment 64"),
        "{message}"
    );
}

#[test]
fn b06_data_outside_the_file_is_refused() {
    let good = two_small().build();
    let size = good.len();
    let message = crate::bytes::error(&good[..size - 1]);
    assert!(
        message.contains(&format!(
            "\"two\" ends at byte {size}, but the file has {} bytes",
            size - 1
        )),
        "{message}"
    );

    let at_end = Bytes::new()
        .tensor("one", &[8], F32, 0)
        .tensor("two", &[8], F32, size as u64)
        .data(&[7; 64]);
    assert!(
        matches!(at_end.open(), Err(Error::TensorOutsideFile { tensor, .. }) if tensor == "two")
    );

    let wraps =
        Bytes::new()
            .tensor("one", &[8], F32, 0)
            .tensor("two", &[8], F32, 0u64.wrapping_sub(32));
    assert!(
        matches!(wraps.data(&[7; 64]).open(), Err(Error::TensorOutsideFile { tensor, .. }) if tensor == "two")
    );

    // All tensors that were declared are there, or it is an error.
    let mut fewer = two_small();
    fewer.n_tensors = Some(3);
    assert!(fewer.open().is_err());
}

#[test]
fn b07_offset_zero_and_an_aligned_header() {
    // Header 24, entry 8 + key + 4 + 4, two directory entries of 8 + 3 + 4 + 8 + 4 + 8.
    let fixed = 24 + 16 + 2 * 35;
    for (past, pad) in [(0, 0), (1, 31)] {
        let key = "k".repeat((fixed as usize).next_multiple_of(32) - fixed as usize + past);
        let bytes = two_small().entry_u32(&key, 1);
        let end = bytes.head().len() as u64;
        assert_eq!(end % 32, past as u64);
        let file = bytes.open().unwrap();
        assert_eq!(file.directory_end(), end);
        assert_eq!(file.data_offset(), end + pad);
        assert_eq!(file.data(file.tensor("one").unwrap()), [7; 32]);
    }
}

#[test]
fn b09_an_empty_key_is_an_ordinary_error() {
    let file = Bytes::new().entry("", 0, &[1]);
    assert_eq!(file.build().len(), 37);
    let message = file.error();
    assert!(message.contains("empty key at entry 0"), "{message}");

    let twice = Bytes::new()
        .entry_u32("a", 1)
        .entry_u32("b", 1)
        .entry_u32("a", 2)
        .error();
    assert!(twice.contains("duplicate key \"a\" at entry 2"), "{twice}");
    let tensors = Bytes::new()
        .tensor("w", &[8], F32, 0)
        .tensor("w", &[8], F32, 32)
        .data(&[0; 64])
        .error();
    assert!(
        tensors.contains("duplicate tensor name \"w\" at tensor 1"),
        "{tensors}"
    );
    let unnamed = Bytes::new().tensor("", &[8], F32, 0).data(&[0; 64]).error();
    assert!(unnamed.contains("empty name for tensor 0"), "{unnamed}");
    let foreign = Bytes::new().entry_u32("caf\u{e9}", 1).error();
    assert!(foreign.contains("not ASCII"), "{foreign}");
}

#[test]
fn b14_names_are_kept_whole_up_to_the_limit() {
    let stem = "n".repeat(63);
    let long = format!("{stem}x");
    let file = Bytes::new()
        .tensor(&stem, &[8], F32, 0)
        .tensor(&long, &[8], F32, 32)
        .data(&[0; 64]);
    let names: Vec<usize> = file
        .open()
        .unwrap()
        .tensors()
        .iter()
        .map(|tensor| tensor.name.len())
        .collect();
    assert_eq!(names, [63, 64]);
    assert_eq!(file.open().unwrap().tensor(&long).unwrap().offset, 32);
    let message = file.tensor(&"n".repeat(74), &[8], F32, 0).error();
    let expected = "name of 74 bytes (the limit is 64) for tensor 2";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn tensors_do_not_overlap() {
    let message = Bytes::new()
        .tensor("one", &[16], F32, 0)
        .tensor("two", &[8], F32, 32)
        .data(&[0; 64])
        .error();
    assert!(
        message.contains("tensors \"one\" and \"two\" overlap at byte 32"),
        "{message}"
    );
    // Order in the directory is free, and gaps are allowed.
    let apart = Bytes::new()
        .tensor("two", &[8], F32, 64)
        .tensor("one", &[8], F32, 0)
        .data(&[0; 96]);
    assert!(apart.open().is_ok());
}

#[test]
fn tensor_types_are_known_by_number() {
    for (id, message) in [
        (43, "unknown tensor type 43"),
        (u32::MAX, "unknown tensor type 4294967295"),
        (4, "type 4 (q4_2), which was removed"),
        (31, "type 31 (q4_0_4_4), which was removed"),
        (38, "type 38 (iq4_nl_8_8), which was removed"),
    ] {
        let error = Bytes::new()
            .tensor("w", &[256], id, 0)
            .data(&[0; 64])
            .error();
        assert!(error.contains(message), "{error}");
    }
    let row = Bytes::new()
        .tensor("w", &[33], Q4_0, 0)
        .data(&[0; 64])
        .error();
    assert!(
        row.contains("rows of 33 elements are not whole blocks of 32 (q4_0)"),
        "{row}"
    );
}

#[test]
fn versions_have_their_own_errors() {
    let with = |version| {
        let mut bytes = two_small();
        bytes.version = version;
        bytes.open().err()
    };
    assert!(matches!(with(1), Some(Error::Version1 { .. })));
    assert!(matches!(
        with(4),
        Some(Error::NewerVersion { version: 4, .. })
    ));
    assert!(matches!(with(0), Some(Error::BadVersion { .. })));
    assert!(matches!(with(0x0102_0304), Some(Error::BadVersion { .. })));
    let mut big = Bytes::big();
    big.version = 4;
    assert!(matches!(
        big.open(),
        Err(Error::NewerVersion { version: 4, .. })
    ));
    big.version = 1;
    assert!(matches!(big.open(), Err(Error::Version1 { .. })));
}

/// The same content in both byte orders: numbers turned, bytes of blocks kept.
fn in_both_orders(big: bool) -> Bytes {
    let file = if big { Bytes::big() } else { Bytes::new() };
    let floats: Vec<u8> = [1.0f32, -2.5]
        .iter()
        .flat_map(|x| file.u32(x.to_bits()))
        .collect();
    let half = file.u16(0x3c01);
    let halves: Vec<u8> = [half.clone(), vec![0; 30]].concat();
    let q4_0 = [half.clone(), (0..16).collect()].concat();
    let q8_0 = [half.clone(), (0..32).collect()].concat();
    let q4_k = [half.clone(), file.u16(0x3c02), (0..140).collect()].concat();
    let data: Vec<u8> = [floats, halves, q4_0, q8_0, q4_k]
        .into_iter()
        .flat_map(|mut part: Vec<u8>| {
            part.resize(part.len().next_multiple_of(32), 0);
            part
        })
        .collect();
    let ids: Vec<u8> = [-1i32, 70000]
        .iter()
        .flat_map(|&id| file.u32(id as u32))
        .collect();
    file.entry_string("general.architecture", b"llama")
        .entry_u32("llama.block_count", 3)
        .entry_array("ids", 5, 2, &ids)
        .tensor("f32", &[2], F32, 0)
        .tensor("f16", &[1], 1, 32)
        .tensor("q4_0", &[32], Q4_0, 64)
        .tensor("q8_0", &[32], Q8_0, 96)
        .tensor("q4_K", &[256], Q4_K, 160)
        .data(&data)
}

#[test]
fn b19_big_endian_files_read_the_same() {
    let little = in_both_orders(false).open().unwrap();
    let big = in_both_orders(true).open().unwrap();
    assert_eq!(big.endian(), Endian::Big);
    assert_eq!(big.metadata(), little.metadata());
    assert_eq!(big.tensors(), little.tensors());
    for tensor in little.tensors() {
        assert_eq!(big.data(tensor), little.data(tensor), "{}", tensor.name);
    }
    // A type of every layout, among them those whose blocks pack words into bytes.
    for ty in gristmill_quant::TensorType::all() {
        let (dims, bytes) = ([ty.block_len() as u64], ty.block_bytes());
        let data: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8).collect();
        let mut turned = data.clone();
        ty.swap_byte_order(&mut turned).unwrap();
        let file = Bytes::big().tensor("w", &dims, ty.id(), 0).data(&turned);
        let file = file.open().unwrap();
        assert_eq!(file.data(&file.tensors()[0]), data, "{ty}");
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let whole = sample().build();
    // The second tensor needs 34 of the last 64 bytes; the rest is padding.
    let needed = whole.len() - 30;
    for length in 0..needed {
        let message = crate::bytes::error(&whole[..length]);
        assert!(message.contains("test.gguf"), "{message}");
    }
    assert!(open(&whole[..needed]).is_ok());
}

#[test]
fn a_vocabulary_needs_no_data_section() {
    let file: File = Bytes::new()
        .entry_string("general.architecture", b"llama")
        .open()
        .unwrap();
    assert_eq!(file.kind(), gristmill_gguf::Kind::Vocabulary);
    assert_eq!(file.data_offset(), file.size());
}
