//! Which instruction set the kernels use: detected once, or forced through `GRISTMILL_ISA`.

use std::fmt;
use std::sync::OnceLock;

use crate::KernelError;
use crate::table::table_of;

/// An instruction set that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Portable Rust: the twin that defines every result.
    Plain,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 and VNNI (no kernels yet).
    Avx512,
    /// AArch64 with NEON and the dot product extension (no kernels yet).
    Neon,
}

impl Isa {
    const ALL: [Self; 4] = [Self::Plain, Self::Avx2, Self::Avx512, Self::Neon];

    /// The name that `GRISTMILL_ISA` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// Whether this build has kernels for it and this CPU can run them.
    pub fn is_supported(self) -> bool {
        table_of(self).is_some()
    }

    /// The supported instruction sets, slowest first.
    pub fn supported() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_supported())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The instruction set in use, chosen on the first call.
///
/// # Errors
/// `UnknownIsa` or `UnsupportedIsa` when `GRISTMILL_ISA` names one that does not exist or cannot run here.
pub fn select_isa() -> Result<Isa, KernelError> {
    static SELECTED: OnceLock<Result<Isa, KernelError>> = OnceLock::new();
    SELECTED
        .get_or_init(|| choose(std::env::var("GRISTMILL_ISA").ok().as_deref()))
        .clone()
}

/// The instruction set in use; plain where `GRISTMILL_ISA` is wrong (programs report that through [`select_isa`]).
pub fn isa() -> Isa {
    select_isa().unwrap_or(Isa::Plain)
}

fn choose(forced: Option<&str>) -> Result<Isa, KernelError> {
    let Some(name) = forced.filter(|name| !name.is_empty()) else {
        return Ok(Isa::supported().last().unwrap_or(Isa::Plain));
    };
    let isa = Isa::ALL
        .into_iter()
        .find(|isa| isa.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| KernelError::UnknownIsa {
            name: name.to_owned(),
        })?;
    if isa.is_supported() {
        Ok(isa)
    } else {
        Err(KernelError::UnsupportedIsa { isa })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_isa_is_taken_or_refused() {
        assert_eq!(choose(Some("plain")), Ok(Isa::Plain));
        assert_eq!(choose(Some("PLAIN")), Ok(Isa::Plain));
        assert!(matches!(
            choose(Some("mmx")),
            Err(KernelError::UnknownIsa { .. })
        ));
        assert!(matches!(
            choose(Some("neon")),
            Err(KernelError::UnsupportedIsa { .. })
        ));
        assert!(choose(None).is_ok_and(Isa::is_supported));
        assert!(choose(Some("")).is_ok_and(Isa::is_supported));
    }
}
