//! Builds the bundled libsab, or finds the system's by pkg-config on request. The rules are in
//! README.md.

use std::env;
use std::path::{Path, PathBuf};

/// Whether an environment variable asks for something: set, and neither empty nor "0".
fn is_set(name: &str) -> bool {
    println!("cargo:rerun-if-env-changed={name}");
    env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether a feature of this crate is on.
fn has(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
}

fn main() {
    if is_set("DOCS_RS") {
        return; // documentation is made without linking
    }
    if is_set("SAB_NO_BUNDLED") || has("SYSTEM") {
        link_system();
    } else {
        link_bundled();
    }
}

fn link_system() {
    // An older library may lack functions; one of another major version has another interface.
    let found = pkg_config::Config::new().range_version("0.1.0".."1.0.0").probe("sab");
    match found {
        Ok(library) => {
            let include = library.include_paths.first().map(|path| path.display());
            if let Some(include) = include {
                println!("cargo:include={include}");
            }
        }
        Err(error) => {
            eprintln!("{error}");
            eprintln!("libsab 0.1 or a later 0.x was not found. Install it, or name its pkg-config folder in PKG_CONFIG_PATH. Without the feature `system`,");
            eprintln!("and without SAB_NO_BUNDLED, the source that comes with the crate is built.");
            std::process::exit(1);
        }
    }
}

fn link_bundled() {
    let source =
        Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("libsab");
    for part in ["CMakeLists.txt", "cmake", "include", "src"] {
        watch(&source.join(part));
    }
    let mut build = cmake::Config::new(&source);
    build.profile("Release").define("SAB_BUILD_TESTS", "OFF").define("CMAKE_INSTALL_LIBDIR", "lib");
    build.define("SAB_LTO", "OFF"); // of the shared library
    for room in ["FILES", "STREAM", "CACHE"] {
        build.define(format!("SAB_WITH_{room}"), if has(room) { "ON" } else { "OFF" });
    }
    let prefix: PathBuf = build.build();
    println!("cargo:rustc-link-search=native={}", prefix.join("lib").display());
    println!("cargo:rustc-link-lib=static=sab");
    let libraries: [(&[&str], &str); 4] = [
        (&["FILES", "STREAM"], "isal"),
        (&["FILES", "STREAM"], "zstd"),
        (&["FILES"], "simdjson"),
        (&["CACHE"], "lmdb"),
    ];
    for (rooms, library) in libraries {
        if rooms.iter().any(|room| has(room)) {
            println!("cargo:rustc-link-lib={library}");
        }
    }
    let apple = env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor == "apple");
    println!("cargo:rustc-link-lib={}", if apple { "c++" } else { "stdc++" });
    println!("cargo:include={}", prefix.join("include").display());
}

/// Builds again when a file changes. Cargo looks into folders, but not through the links that lead
/// there in a checkout.
fn watch(path: &Path) {
    let path = path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("cargo:rerun-if-changed={}", path.display());
}
