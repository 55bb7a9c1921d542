//! The files of `shaders/`.

use super::{policy_loss, window_similarity};

/// What a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Parameters,
    Read,
    Write,
}

/// A file of `shaders/`.
#[derive(Debug)]
pub(super) struct Shader {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    pub(super) bindings: &'static [Binding],
    /// Sizes that it is compiled for.
    pub(super) sizes: &'static [u32],
}

/// Put before every file.
const COMMON: &str = include_str!("../../../shaders/common.wgsl");

impl Shader {
    /// The whole shader. `size` becomes its constant SIZE: the length of an array that registers hold.
    pub(super) fn text(&self, size: u32) -> String {
        format!("const SIZE: u32 = {size}u;\n{COMMON}\n{}", self.source)
    }
}

const ALL: [&Shader; 2] = [&policy_loss::SHADER, &window_similarity::SHADER];

/// A shader as the driver gets it.
#[derive(Debug)]
pub struct ShaderText {
    /// File in `shaders/`, and the size that it is compiled for.
    pub name: String,
    /// WGSL.
    pub text: String,
}

/// Every shader in every size, for tools that look at them.
pub fn shader_texts() -> Vec<ShaderText> {
    let of_shader = |shader: &'static Shader| {
        shader.sizes.iter().map(move |&size| ShaderText {
            name: format!("{}, size {size}", shader.name),
            text: shader.text(size),
        })
    };
    ALL.into_iter().flat_map(of_shader).collect()
}
