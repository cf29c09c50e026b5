//! Servers and bindings use this crate, so it must not bring in the command or anything made for a terminal.

/// Crates that only the command may use. `clap` stands for `clap_complete` and the like as well.
const BANNED: [&str; 4] = ["clap", "ctrlc", "indicatif", "evenkeel-cli"];

/// The banned crates that a manifest names anywhere outside of comments: as a key, in a header or as a renamed `package`.
fn banned_in(manifest: &str) -> Vec<&str> {
    let code = manifest.lines().filter_map(|line| line.split('#').next());
    let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && !"-_".contains(c)));
    words.filter(|word| BANNED.iter().any(|banned| word.starts_with(banned))).collect()
}

#[test]
fn no_terminal_is_needed() {
    let found = banned_in(include_str!("../../Cargo.toml"));
    assert!(found.is_empty(), "the formats depend on {found:?}; move what needs that to the command");
}

#[test]
fn the_scan_finds_dependencies_however_they_are_written() {
    for manifest in [
        "[dependencies]\nclap.workspace = true",
        "[dependencies]\nclap_complete = \"4\"",
        "[dependencies.indicatif]\nversion = \"0.18\"",
        "[target.'cfg(unix)'.dependencies]\nctrlc = { version = \"3\" }",
        "[dev-dependencies]\nevenkeel-cli = { path = \"../evenkeel-cli\" }",
        "[dependencies]\nbars = { package = \"indicatif\", version = \"0.18\" }",
    ] {
        assert!(!banned_in(manifest).is_empty(), "{manifest}");
    }
    assert!(banned_in("[dependencies]\ncsv.workspace = true # not clap\nevenkeel-sim = \"1\"").is_empty());
}
