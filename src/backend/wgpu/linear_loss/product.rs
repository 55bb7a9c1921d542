//! Products of matrices on the device, as steps of a submission.

use bytemuck::NoUninit;

use crate::backend::wgpu::Wgpu;
use crate::backend::wgpu::driver::{Memory, Step};
use crate::backend::wgpu::shader::{Binding, Shader};
use crate::error::Result;

pub(in crate::backend::wgpu) const SHADER: Shader = Shader {
    name: "linear_loss.wgsl",
    before: "",
    source: include_str!("../../../../shaders/linear_loss.wgsl"),
    bindings: &[Binding::Parameters, Binding::Read, Binding::Read, Binding::Write],
    sizes: &[1],
};

/// Rows and columns of a workgroup.
const BLOCK: usize = 64;
/// Most k of a dispatch: short enough for a thread's loops, and a multiple of what is summed together.
const MOST_K: usize = 1024;

/// Dispatches that are waited for together: one of the largest is some 10^10 operations.
const MOST_STEPS: usize = 8;

/// `Args` of the shader.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Args {
    m: u32,
    n: u32,
    k: u32,
    adds: u32,
    a_first: u32,
    a_row: u32,
    a_column: u32,
    a_dtype: u32,
    b_first: u32,
    b_row: u32,
    b_column: u32,
    b_dtype: u32,
    c_first: u32,
    c_row: u32,
    unused: [u32; 2],
}

/// A matrix on the device: elements from `first` on, with the distances of two rows and of two columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) memory: &'a Memory,
    pub(super) dtype: u32,
    pub(super) first: usize,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl Matrix<'_> {
    pub(super) fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// `[m, k]` times `[k, n]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
}

/// A product in dispatches of a part of k each.
pub(super) struct Product<'a> {
    args: Vec<Memory>,
    shape: Shape,
    a: &'a Memory,
    b: &'a Memory,
    c: &'a Memory,
}

impl<'a> Product<'a> {
    /// Writes or adds to `c`, an f32 matrix whose columns are neighbours.
    pub(super) fn new(
        device: &Wgpu,
        a: Matrix<'a>,
        b: Matrix<'a>,
        c: Matrix<'a>,
        shape: Shape,
        adds: bool,
    ) -> Result<Self> {
        let args = (0..shape.k).step_by(MOST_K).map(|first_k| {
            device.parameters(&Args {
                m: shape.m as u32,
                n: shape.n as u32,
                k: MOST_K.min(shape.k - first_k) as u32,
                adds: u32::from(adds || first_k > 0),
                a_first: (a.first + first_k * a.column) as u32,
                a_row: a.row as u32,
                a_column: a.column as u32,
                a_dtype: a.dtype,
                b_first: (b.first + first_k * b.row) as u32,
                b_row: b.row as u32,
                b_column: b.column as u32,
                b_dtype: b.dtype,
                c_first: c.first as u32,
                c_row: c.row as u32,
                unused: [0; 2],
            })
        });
        Ok(Product {
            args: args.collect::<Result<_>>()?,
            shape,
            a: a.memory,
            b: b.memory,
            c: c.memory,
        })
    }

    /// Runs the dispatches in order.
    pub(super) fn run(&self, device: &Wgpu) -> Result<()> {
        let Shape { m, n, .. } = self.shape;
        let memory: Vec<_> = self.args.iter().map(|args| [args, self.a, self.b, self.c]).collect();
        let step = |memory| Step {
            shader: &SHADER,
            size: 1,
            entry: "linear_product",
            memory,
            workgroups: (m.div_ceil(BLOCK) * n.div_ceil(BLOCK)) as u32,
        };
        for some in memory.chunks(MOST_STEPS) {
            let steps: Vec<Step<'_>> = some.iter().map(|memory| step(memory)).collect();
            device.run(&steps, &[])?;
        }
        Ok(())
    }
}
