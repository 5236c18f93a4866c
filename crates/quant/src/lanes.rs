//! N independent numbers that take the same steps.
//!
//! The scale searches sum over the elements of a sub-block in a fixed order, so one sub-block cannot be
//! vectorized without changing its bits. Eight sub-blocks side by side can: each lane adds up its own
//! elements in order, and the compiler turns the loops over lanes into vector instructions.

use std::array::from_fn;
use std::ops::{Add, BitAnd, Div, Mul, Neg, Sub};

use crate::levels::nearest;

/// N floats.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<const N: usize>(pub [f32; N]);

/// N integers.
#[derive(Clone, Copy)]
pub(crate) struct Ints<const N: usize>(pub [i32; N]);

/// N truth values: all bits set or none.
#[derive(Clone, Copy)]
pub(crate) struct Mask<const N: usize>([u32; N]);

impl<const N: usize> Lanes<N> {
    pub const ZERO: Self = Lanes([0.0; N]);

    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Lanes([x; N])
    }

    #[inline(always)]
    pub fn abs(self) -> Self {
        Lanes(self.0.map(f32::abs))
    }

    #[inline(always)]
    pub fn sqrt(self) -> Self {
        Lanes(self.0.map(f32::sqrt))
    }

    #[inline(always)]
    pub fn greater(self, other: Self) -> Mask<N> {
        Mask(from_fn(|i| mask(self.0[i] > other.0[i])))
    }

    #[inline(always)]
    pub fn less(self, other: Self) -> Mask<N> {
        other.greater(self)
    }

    #[inline(always)]
    pub fn differs(self, other: Self) -> Mask<N> {
        Mask(from_fn(|i| mask(self.0[i] != other.0[i])))
    }

    #[inline(always)]
    pub fn equals(self, other: Self) -> Mask<N> {
        Mask(from_fn(|i| mask(self.0[i] == other.0[i])))
    }

    /// Nearest integers; see [`nearest`].
    #[inline(always)]
    pub fn nearest(self) -> Ints<N> {
        Ints(self.0.map(nearest))
    }
}

impl<const N: usize> Ints<N> {
    pub const ZERO: Self = Ints([0; N]);

    #[inline(always)]
    pub fn clamp(self, min: i32, max: i32) -> Self {
        Ints(self.0.map(|x| x.min(max).max(min)))
    }

    #[inline(always)]
    pub fn plus(self, n: i32) -> Self {
        Ints(self.0.map(|x| x.wrapping_add(n)))
    }

    #[inline(always)]
    pub fn to_lanes(self) -> Lanes<N> {
        Lanes(self.0.map(|x| x as f32))
    }

    #[inline(always)]
    pub fn differs(self, other: Self) -> Mask<N> {
        Mask(from_fn(|i| mask(self.0[i] != other.0[i])))
    }
}

impl<const N: usize> Mask<N> {
    #[inline(always)]
    pub fn any(self) -> bool {
        self.0.iter().fold(0, |any, lane| any | lane) != 0
    }

    /// `yes` where set, `no` elsewhere.
    #[inline(always)]
    pub fn choose(self, yes: Lanes<N>, no: Lanes<N>) -> Lanes<N> {
        Lanes(from_fn(|i| {
            f32::from_bits(blend(self.0[i], yes.0[i].to_bits(), no.0[i].to_bits()))
        }))
    }

    /// `yes` where set, `no` elsewhere.
    #[inline(always)]
    pub fn choose_ints(self, yes: Ints<N>, no: Ints<N>) -> Ints<N> {
        Ints(from_fn(|i| {
            blend(self.0[i], yes.0[i] as u32, no.0[i] as u32) as i32
        }))
    }
}

#[inline(always)]
fn mask(set: bool) -> u32 {
    if set { u32::MAX } else { 0 }
}

#[inline(always)]
fn blend(mask: u32, yes: u32, no: u32) -> u32 {
    (mask & yes) | (!mask & no)
}

impl<const N: usize> BitAnd for Mask<N> {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Mask(from_fn(|i| self.0[i] & other.0[i]))
    }
}

impl<const N: usize> Add for Lanes<N> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Lanes(from_fn(|i| self.0[i] + other.0[i]))
    }
}

impl<const N: usize> Sub for Lanes<N> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Lanes(from_fn(|i| self.0[i] - other.0[i]))
    }
}

impl<const N: usize> Mul for Lanes<N> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Lanes(from_fn(|i| self.0[i] * other.0[i]))
    }
}

impl<const N: usize> Div for Lanes<N> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Lanes(from_fn(|i| self.0[i] / other.0[i]))
    }
}

impl<const N: usize> Neg for Lanes<N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Lanes(self.0.map(|x| -x))
    }
}

/// Lane `s` of entry `e` is element `e` of sub-block `s`: `LEN` entries from `N` sub-blocks. Sub-blocks past
/// the end of `x` are zero.
#[inline(always)]
pub(crate) fn transpose<const N: usize, const LEN: usize>(x: &[f32]) -> [Lanes<N>; LEN] {
    from_fn(|e| Lanes(from_fn(|s| x.get(s * LEN + e).copied().unwrap_or(0.0))))
}
