//! Every shader compiles, with the checks of naga and without an adapter.

#![cfg(feature = "wgpu")]

use hunkwise::backend::wgpu::shader_texts;
use wgpu::naga::front::wgsl;
use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};

#[test]
fn every_shader_is_valid() {
    let texts = shader_texts();
    assert!(!texts.is_empty());
    for shader in texts {
        let module = wgsl::parse_str(&shader.text)
            .unwrap_or_else(|e| panic!("{}:\n{}", shader.name, e.emit_to_string(&shader.text)));
        // No optional capability: no f64, no 64-bit integers, no subgroups.
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
        let valid = validator.validate(&module);
        assert!(
            valid.is_ok(),
            "{}: {}",
            shader.name,
            valid.unwrap_err().emit_to_string(&shader.text)
        );
        assert!(!module.entry_points.is_empty(), "{} has no entry point", shader.name);
    }
}

#[test]
fn a_shader_with_a_mistake_is_found() {
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    let wide = wgsl::parse_str("@group(0) @binding(0) var<uniform> x: f64;");
    assert!(wide.is_err() || validator.validate(&wide.unwrap()).is_err());
}
