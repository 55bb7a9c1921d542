//! Links the CUDA kernels for the host in, where the feature `emulate` asks for them. Nothing else is built here.

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    #[cfg(feature = "emulate")]
    emulate();
}

#[cfg(feature = "emulate")]
fn emulate() {
    println!("cargo::rerun-if-env-changed=HUNKWISE_SANITIZE");
    let mut build = cc::Build::new();
    // The tests then run with the sanitizer's library first: dev/test.
    if std::env::var_os("HUNKWISE_SANITIZE").is_some() {
        build.flag("-fsanitize=address");
        println!("cargo::rustc-link-lib=asan");
    }
    build
        .cpp(true)
        .std("c++20")
        .define("HUNKWISE_HOST", None)
        .flag("-ffp-contract=off")
        .opt_level(2)
        .file("kernels/host/kernels.cpp")
        .compile("hunkwise_kernels");
}
