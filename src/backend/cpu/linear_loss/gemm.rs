//! Products of matrices, by the `gemm` crate, over views that cannot reach past their memory or overlap.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

/// A matrix that is read; any of its two strides is 1.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f32],
    n_rows: usize,
    n_columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `n_columns` values, one after the other.
    pub(super) fn new(values: &'a [f32], n_columns: usize) -> Self {
        let n_rows = values.len() / n_columns;
        Matrix { values, n_rows, n_columns, row_stride: n_columns, column_stride: 1 }
    }

    pub(super) fn transposed(self) -> Self {
        Matrix {
            n_rows: self.n_columns,
            n_columns: self.n_rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    pub(super) fn columns(self, at: Range<usize>) -> Self {
        assert!(at.start < at.end && at.end <= self.n_columns);
        let values = &self.values[at.start * self.column_stride..];
        Matrix { values, n_columns: at.len(), ..self }
    }

    /// Index past the last value that the strides reach.
    fn reach(&self) -> usize {
        (self.n_rows - 1) * self.row_stride + (self.n_columns - 1) * self.column_stride + 1
    }
}

/// A matrix that is written: some columns of rows that lie one after the other.
pub(super) struct MatrixMut<'a> {
    start: *mut f32,
    n_rows: usize,
    n_columns: usize,
    row_stride: usize,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `MatrixMut` is the only way to its values while it lives, as `&mut [f32]` is, and f32 is Send.
unsafe impl Send for MatrixMut<'_> {}

impl<'a> MatrixMut<'a> {
    /// Rows of `n_columns` values.
    pub(super) fn new(values: &'a mut [f32], n_columns: usize) -> Self {
        MatrixMut {
            n_rows: values.len() / n_columns,
            n_columns,
            row_stride: n_columns,
            start: values.as_mut_ptr(),
            memory: PhantomData,
        }
    }

    /// Blocks of `width` columns, the last one with the rest.
    pub(super) fn column_blocks(self, width: usize) -> Vec<MatrixMut<'a>> {
        (0..self.n_columns)
            .step_by(width)
            .map(|first| MatrixMut {
                start: self.start.wrapping_add(first),
                n_columns: width.min(self.n_columns - first),
                ..self
            })
            .collect()
    }

    /// Becomes `left · right`, or has that added to it. The value of a row does not depend on what other rows there
    /// are, as long as there are more than 64.
    pub(super) fn multiply(&mut self, left: Matrix<'_>, right: Matrix<'_>, add: bool) {
        let (m, n, k) = (self.n_rows, self.n_columns, left.n_columns);
        assert!(left.n_rows == m && right.n_columns == n && right.n_rows == k);
        if m == 0 || n == 0 || k == 0 {
            return;
        }
        assert!(left.reach() <= left.values.len() && right.reach() <= right.values.len());
        // SAFETY: the assertions hold both factors to their slices. The product is in the slice that `new` borrowed:
        // `column_blocks` gives columns of its rows, each to one block, and every value there is initialised.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                self.start,
                1,
                self.row_stride as isize,
                add,
                left.values.as_ptr(),
                left.column_stride as isize,
                left.row_stride as isize,
                right.values.as_ptr(),
                right.column_stride as isize,
                right.row_stride as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}
