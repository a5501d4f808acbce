//! Makes Rust of the protocol's messages, without any program beside the compiler's own.

use std::error::Error;
use std::path::PathBuf;

/// Where the descriptions of the messages lie, from the package's root.
const DIRECTORY: &str = "src/protocol/grpc/proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DIRECTORY}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    let mut compiler = protox::Compiler::new([DIRECTORY])?;
    compiler.include_imports(true);
    for file in ["rls.proto", "rlqs.proto"] {
        compiler.open_file(file)?;
    }
    let encoded = compiler.encode_file_descriptor_set();
    std::fs::write(out.join("descriptors.bin"), encoded)?;
    prost_build::Config::new()
        // In order, so that one bucket is always told alike.
        .btree_map([".envoy.service.rate_limit_quota.v3.BucketId.bucket"])
        .include_file("messages.rs")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
