//! Makes Rust of the protocol's messages, without any program beside the compiler's own.

use std::error::Error;
use std::path::PathBuf;

/// Where the descriptions of the messages lie, from the package's root.
const DIRECTORY: &str = "src/protocol/grpc/proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DIRECTORY}");
    let described = protox::compile(["rls.proto"], [DIRECTORY])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    prost_build::Config::new()
        .file_descriptor_set_path(out.join("descriptors.bin"))
        .include_file("messages.rs")
        .compile_fds(described)?;
    Ok(())
}
