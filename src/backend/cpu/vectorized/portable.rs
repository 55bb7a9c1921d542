//! Sixteen f32 in plain Rust.

use std::array::from_fn;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use super::{Lanes, WIDTH};

#[derive(Clone, Copy)]
pub(super) struct Portable([f32; WIDTH]);

#[derive(Clone, Copy)]
pub(super) struct Mask([bool; WIDTH]);

macro_rules! operator {
    ($type:ident, $trait:ident, $method:ident, $operator:tt) => {
        impl $trait for $type {
            type Output = $type;
            #[inline(always)]
            fn $method(self, other: $type) -> $type {
                $type(from_fn(|i| self.0[i] $operator other.0[i]))
            }
        }
    };
}

operator!(Portable, Add, add, +);
operator!(Portable, Sub, sub, -);
operator!(Portable, Mul, mul, *);
operator!(Portable, Div, div, /);
operator!(Mask, BitAnd, bitand, &);
operator!(Mask, BitOr, bitor, |);

impl Neg for Portable {
    type Output = Portable;
    #[inline(always)]
    fn neg(self) -> Portable {
        Portable(self.0.map(|x| -x))
    }
}

impl Not for Mask {
    type Output = Mask;
    #[inline(always)]
    fn not(self) -> Mask {
        Mask(self.0.map(|x| !x))
    }
}

impl Lanes for Portable {
    type Mask = Mask;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Portable([value; WIDTH])
    }

    #[inline(always)]
    fn load(values: &[f32; WIDTH]) -> Self {
        Portable(*values)
    }

    #[inline(always)]
    fn store(self, values: &mut [f32; WIDTH]) {
        *values = self.0;
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        Portable(from_fn(|i| self.0[i].mul_add(factor.0[i], term.0[i])))
    }

    #[inline(always)]
    fn less(self, other: Self) -> Mask {
        Mask(from_fn(|i| self.0[i] < other.0[i]))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self::select(self.less(other), self, other)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self::select(other.less(self), self, other)
    }

    #[inline(always)]
    fn is_nan(self) -> Mask {
        Mask(self.0.map(f32::is_nan))
    }

    #[inline(always)]
    fn is_number(self) -> Mask {
        !self.is_nan()
    }

    #[inline(always)]
    fn is_zero(self) -> Mask {
        Mask(self.0.map(|x| x == 0.0))
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        Portable(self.0.map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(1f32.to_bits()))))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Portable(from_fn(|i| if mask.0[i] { yes.0[i] } else { no.0[i] }))
    }

    #[inline(always)]
    fn mask(values: &[bool; WIDTH]) -> Mask {
        Mask(*values)
    }

    #[inline(always)]
    fn splat_mask(value: bool) -> Mask {
        Mask([value; WIDTH])
    }

    #[inline(always)]
    fn keep(self, mask: Mask) -> Self {
        Portable(from_fn(|i| if mask.0[i] { self.0[i] } else { 0.0 }))
    }
    #[inline(always)]
    fn add_where(self, mask: Mask, term: Self) -> Self {
        Self::select(mask, self + term, self)
    }
}
