//! NumPy's array files.

use std::io::{self, Write};

/// Writes the header of a version 1 file of little-endian float32, `[n_rows, n_columns]` in C order.
///
/// Errors: those of the writer.
pub fn write_header(out: &mut impl Write, n_rows: usize, n_columns: usize) -> io::Result<()> {
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n_rows}, {n_columns}), }}");
    // magic, version and length take 10 bytes; the data starts at a multiple of 64, after a newline
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    // two numbers of at most 20 digits: the header is far below 64 KiB
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

/// Writes a row.
///
/// Errors: those of the writer.
pub fn write_row(out: &mut impl Write, row: &[f32]) -> io::Result<()> {
    let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_header_is_as_numpy_writes_it() {
        let mut bytes = Vec::new();
        super::write_header(&mut bytes, 3, 5).unwrap();
        super::write_row(&mut bytes, &[1.0]).unwrap();
        // numpy 2.4: np.save of np.zeros((3, 5), np.float32)
        let text =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }";
        assert_eq!(&bytes[..text.len()], text);
        assert_eq!((bytes.len(), bytes[127]), (132, b'\n'));
        assert_eq!(bytes[128..], [0, 0, 0x80, 0x3f]);
    }
}
