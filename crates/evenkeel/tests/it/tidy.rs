//! Rules of the design that no compiler enforces, checked by reading the source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the pure core must not use: I/O, clocks, threads, the environment, order that differs from run to run.
const BANNED_PATHS: [&str; 10] = [
    "std::fs",
    "std::net",
    "std::io",
    "std::time",
    "std::thread",
    "std::process",
    "std::env",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "rand::rng",
];
const BANNED_TEXT: [&str; 9] =
    ["async fn", ".await", "println!", "eprintln!", "print!", "eprint!", "tokio", "thread_rng", "static mut"];

// Short lists without an allocation each: `smallvec`.
const CORE_DEPENDENCIES: [&str; 5] = ["hashbrown", "rand_core", "rand_pcg", "smallvec", "thiserror"];

/// Which rooms of the core each room may use. Use goes one way only.
const ROOMS: [(&str, &[&str]); 20] = [
    ("trace", &[]),
    ("model", &[]),
    ("draw", &[]),
    ("graph", &["model", "draw"]),
    ("bound", &["model", "graph"]),
    ("select", &["model", "graph", "bound", "draw"]),
    ("lead", &["model", "graph", "bound", "draw", "select"]),
    ("order", &["model", "graph", "draw"]),
    ("bid", &["model", "graph", "draw", "trace"]),
    ("explain", &["model", "graph", "bound", "select"]),
    ("check", &["model", "bound"]),
    ("workload", &["model", "draw"]),
    ("queue", &["model", "draw"]),
    ("observe", &["model", "draw"]),
    ("redirect", &["model"]),
    ("place", &["model", "draw", "observe", "trace"]),
    ("assign", &["model", "graph", "draw", "trace"]),
    ("run", &["model", "draw", "graph", "observe", "select", "trace"]),
    (
        "policy",
        &["model", "bound", "draw", "select", "lead", "order", "bid", "queue", "place", "assign", "run"],
    ),
    ("plan", &["model", "bound", "check", "select", "lead", "policy"]),
];

/// Which crates of the workspace each crate may depend on.
const CRATES: [(&str, &[&str]); 6] = [
    ("evenkeel", &[]),
    ("evenkeel-sim", &["evenkeel"]),
    ("evenkeel-formats", &["evenkeel", "evenkeel-sim"]),
    ("evenkeel-store", &["evenkeel"]),
    ("evenkeel-node", &["evenkeel", "evenkeel-store"]),
    ("evenkeel-cli", &["evenkeel", "evenkeel-sim", "evenkeel-formats", "evenkeel-store", "evenkeel-node"]),
];

fn core() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    entries.sort();
    entries
}

/// The `.rs` files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(folder).into_iter().partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// The code without what stands behind `//`.
fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// All paths in `code` that begin with one of `roots`, with braces multiplied out: `a::{b, c::d}` is `a::b` and
/// `a::c::d`.
fn paths(code: &str, roots: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for root in roots {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].trim_end();
            let is_inside = code[..at].ends_with(is_word) || before.ends_with("::");
            if !is_inside && code[at + root.len()..].trim_start().starts_with("::") {
                path_tree(&mut &code[at..], "", &mut found);
            }
        }
    }
    found
}

/// Reads one path, or tree of paths, off the front of `code`.
fn path_tree(code: &mut &str, prefix: &str, found: &mut Vec<String>) {
    *code = code.trim_start();
    if let Some(rest) = code.strip_prefix('{') {
        *code = rest;
        loop {
            path_tree(code, prefix, found);
            // `as name` does not matter.
            let end = code.find([',', '}']).unwrap_or(code.len());
            let is_last = !code[end..].starts_with(',');
            *code = code.get(end + 1..).unwrap_or("");
            if is_last {
                return;
            }
        }
    }
    let end = code.find(|c| !is_word(c) && c != '*').unwrap_or(code.len());
    let path = format!("{prefix}{}", &code[..end]);
    *code = code[end..].trim_start();
    match code.strip_prefix("::") {
        Some(rest) => {
            *code = rest;
            path_tree(code, &format!("{path}::"), found);
        }
        None => found.push(path),
    }
}

/// What in `source` breaks the rule that the core is pure.
fn impurities(source: &str) -> Vec<String> {
    let code = without_comments(source);
    let is_banned = |path: &String| {
        // A glob, or the module above, lets the banned in as well.
        let reach = path.trim_end_matches('*').trim_end_matches("::");
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        BANNED_PATHS.iter().any(|banned| within(path, banned) || within(banned, reach))
    };
    let texts = BANNED_TEXT.iter().filter(|text| code.contains(*text)).map(ToString::to_string);
    paths(&code, &["std", "rand"]).into_iter().filter(is_banned).chain(texts).collect()
}

/// The top-level modules that the module at `module` (such as `["graph", "level"]`) uses beside its own.
fn rooms_used(source: &str, module: &[&str]) -> Vec<String> {
    let code = without_comments(source);
    // A module of tests is one level deeper.
    let (code, tests) = code.split_once("#[cfg(test)]").unwrap_or((&code, ""));
    let mut rooms = Vec::new();
    for (code, depth) in [(code, module.len()), (tests, module.len() + 1)] {
        for path in paths(code, &["crate", "super"]) {
            let mut names = path.split("::").peekable();
            let ups = std::iter::from_fn(|| names.next_if_eq(&"super")).count();
            let is_from_root = ups == depth || names.next_if_eq(&"crate").is_some();
            rooms.extend(names.next().filter(|_| is_from_root).map(String::from));
        }
    }
    rooms.sort();
    rooms.dedup();
    rooms.retain(|room| room != module[0]);
    rooms
}

/// The names below headers of a manifest that `is_wanted` chooses, such as `dependencies`.
fn dependencies(manifest: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_inside = is_wanted(header);
            let of_one = header.rsplit_once('.').filter(|(outer, _)| is_wanted(outer));
            names.extend(of_one.map(|(_, name)| name.to_owned()));
        } else if is_inside && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            names.extend((!name.is_empty()).then(|| name.trim_matches('"').to_owned()));
        }
    }
    names
}

/// What a crate needs to be built, tests aside.
fn is_for_building(header: &str) -> bool {
    header.ends_with("dependencies") && !header.ends_with("dev-dependencies")
}

#[test]
fn the_core_is_pure() {
    for path in sources(&core().join("src")) {
        let found = impurities(&read(&path));
        assert!(
            found.is_empty(),
            "{}: the core has no I/O, clock or hidden state: {found:?}",
            path.display()
        );
    }
    for name in dependencies(&read(&core().join("Cargo.toml")), is_for_building) {
        assert!(
            CORE_DEPENDENCIES.contains(&name.as_str()),
            "the core depends on `{name}`; if that is pure, add it to CORE_DEPENDENCIES with the reason"
        );
    }
}

#[test]
fn rooms_use_each_other_one_way() {
    let src = core().join("src");
    for path in sources(&src) {
        let module = path.strip_prefix(&src).expect("below src").with_extension("");
        let mut module: Vec<&str> = module.iter().map(|name| name.to_str().expect("plain names")).collect();
        if module == ["lib"] {
            continue;
        }
        module.pop_if(|last| *last == "mod");
        let room = ROOMS.iter().find(|(room, _)| *room == module[0]);
        let (room, may_use) = room.unwrap_or_else(|| {
            panic!(
                "room `{}` is new: add it to ROOMS with the rooms that it may use, none of which uses it",
                module[0]
            )
        });
        for used in rooms_used(&read(&path), &module) {
            assert!(
                may_use.contains(&used.as_str()),
                "{}: `{room}` may use {may_use:?}, not `{used}`; move what both need to a room below",
                path.display()
            );
        }
    }
}

/// Each room uses only those before it, so no circle can hide in the table.
#[test]
fn the_tables_have_no_circles() {
    for table in [&ROOMS[..], &CRATES[..]] {
        for (i, (name, may_use)) in table.iter().enumerate() {
            let is_before = |used: &&str| table[..i].iter().any(|(before, _)| before == used);
            assert!(may_use.iter().all(is_before), "{name} uses what stands below it");
        }
    }
}

#[test]
fn crates_depend_on_each_other_one_way() {
    let crates = core().parent().expect("the folder of crates");
    let manifests = entries(crates).into_iter().map(|folder| folder.join("Cargo.toml"));
    let manifests: Vec<String> = manifests.filter(|path| path.is_file()).map(|path| read(&path)).collect();
    let name_of = |manifest: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        line.expect("a crate has a name").trim_matches('"').to_owned()
    };
    let ours: Vec<String> = manifests.iter().map(|manifest| name_of(manifest)).collect();
    for (name, manifest) in ours.iter().zip(&manifests) {
        let known = CRATES.iter().find(|(known, _)| known == name);
        let (_, may_use) = known
            .unwrap_or_else(|| panic!("crate `{name}` is new: add it to CRATES with those it may depend on"));
        let all = dependencies(manifest, |header| header.ends_with("dependencies"));
        for used in all.iter().filter(|used| ours.contains(used)) {
            assert!(may_use.contains(&used.as_str()), "{name} may depend on {may_use:?}, not on `{used}`");
        }
    }
}

/// Whether `text` names a place on the machine where it was written.
fn has_local_path(text: &str) -> bool {
    let needles = [concat!("/", "work/"), concat!("/", "root/")];
    // Behind a name or a dot it is a part of a longer path.
    let is_start = |at: usize| !text[..at].ends_with(|c| is_word(c) || ".-}".contains(c));
    needles.iter().any(|needle| text.match_indices(needle).any(|(at, _)| is_start(at)))
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let root = core().ancestors().nth(2).expect("the workspace");
    let Ok(listed) = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output() else { return };
    // Outside of a repository nothing is listed; a file may be listed but deleted, and need not be text.
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            assert!(!has_local_path(&text), "{name} names an absolute path of one machine");
        }
    }
}

/// Where code compares something with the name of a policy.
fn compared_names(source: &str) -> Vec<&'static str> {
    let code = without_comments(source);
    let names = evenkeel::policy::POLICIES.iter().map(|policy| policy.name);
    let is_compared = |name: &&str| {
        let quoted = format!("\"{name}\"");
        code.match_indices(&quoted).any(|(at, _)| {
            let (before, after) = (code[..at].trim_end(), code[at + quoted.len()..].trim_start());
            let signs = ["==", "!="];
            signs.iter().any(|sign| before.ends_with(sign) || after.starts_with(sign))
                || after.starts_with("=>")
                || after.starts_with("| \"")
                || before.ends_with("\" |")
        })
    };
    let fields = ["policy.name ==", "policy.name !=", "match policy.name", "match (policy.name"];
    names.filter(is_compared).chain(fields.into_iter().filter(|field| code.contains(field))).collect()
}

/// What a driver has to know of a policy is in the table of policies, so that one can be put in under any name.
#[test]
fn no_code_compares_the_name_of_a_policy() {
    let root = core().ancestors().nth(2).expect("the workspace");
    let crates = CRATES.iter().map(|(name, _)| root.join("crates").join(name).join("src"));
    for path in crates.chain([root.join("bench/src")]).flat_map(|folder| sources(&folder)) {
        let is_registry = path.ends_with("evenkeel/src/policy.rs");
        let compared = compared_names(&read(&path));
        assert!(is_registry || compared.is_empty(), "{} compares {compared:?}", path.display());
    }
}

/// Charts are drawn, and runs of the simulator begin, in one place each.
#[test]
fn there_is_one_of_each() {
    let crates = core().parent().expect("the folder of crates");
    for (what, home) in [("<svg", "evenkeel-cli/src/plot"), (".keep_timeline()", "evenkeel-sim/src/case.rs")]
    {
        let sources = entries(crates).into_iter().flat_map(|folder| sources(&folder.join("src")));
        let homes: Vec<PathBuf> = sources.filter(|path| read(path).contains(what)).collect();
        assert!(
            !homes.is_empty() && homes.iter().all(|path| path.starts_with(crates.join(home))),
            "{homes:?}"
        );
    }
}

/// A function named like a question does not act.
#[test]
fn no_question_acts() {
    for path in sources(&core().join("src")) {
        let text = read(&path);
        let lines = text.lines().filter(|line| line.contains("fn ") && line.contains("(&mut self"));
        let asks =
            |line: &&str| ["fn is_", "fn has_", "fn can_", "fn are_"].iter().any(|verb| line.contains(verb));
        let acting: Vec<&str> = lines.filter(asks).collect();
        assert!(acting.is_empty(), "{}: name what it does: {acting:?}", path.display());
    }
}

/// The type of a machine's refusals has a name of its own, so that a driver of several machines can tell them apart.
#[test]
fn refusals_have_names_of_their_own() {
    let text: String = sources(&core().join("src")).iter().map(|path| read(path)).collect();
    for name in ["Misfit", "Stray", "BadReport", "BadRow", "BadLease", "BadTurn", "BadSnapshot", "PlaceError"]
    {
        let n = text.matches(&format!("pub enum {name} {{")).count();
        assert_eq!(n, 1, "{name} is the name of {n} types");
    }
}

/// State machines are driven alike: time, event, actions out, and when to be woken.
#[test]
fn machines_have_one_convention() {
    for (files, machine) in [
        (&["run/executor.rs", "run/events.rs"][..], "Executor"),
        (&["bid/client.rs"], "Client"),
        (&["bid/server.rs"], "Server"),
        (&["assign/opass_dynamic/guided.rs"], "Guided"),
    ] {
        let text: String = files.iter().map(|file| read(&core().join("src").join(file))).collect();
        let has = |part: &str| assert!(text.contains(part), "{machine} has no `{part}`");
        has("pub fn on_event(&mut self, ");
        has("now_ns: u64, event: Event");
        has("pub fn wake_at(&self) -> Option<u64>");
    }
}

/// State machines can be watched alike: counters, and the latest decisions in one kind of ring.
#[test]
fn machines_have_one_way_to_be_watched() {
    for file in [
        "run/trace.rs",
        "bid/client/trace.rs",
        "bid/server/trace.rs",
        "assign/opass_dynamic/trace.rs",
        "place/placer/trace.rs",
    ] {
        let text = read(&core().join("src").join(file));
        let has = |part: &str| assert!(text.contains(part), "{file} has no `{part}`");
        has("pub struct Decision {");
        has("pub struct Candidate {");
        has("pub fn trace(&mut self, most: usize) {\n        self.trace.keep(most);");
        has("pub fn take_decisions(&mut self) -> Vec<Decision> {\n        self.trace.take()");
        let room = sources(&core().join("src").join(file.split_once('/').expect("a room").0));
        let room: String = room.iter().map(|path| read(path)).collect();
        assert!(room.contains("pub fn counts(&self) -> Counts"), "{file}: nothing is counted");
        assert!(!room.contains("VecDeque<Decision>"), "{file}: decisions are kept in `Trace`");
    }
}

/// A machine that refuses what it is told has found a mistake: nobody may look away.
#[test]
fn the_simulator_ignores_no_refusal() {
    let root = core().ancestors().nth(2).expect("the workspace");
    for path in sources(&root.join("crates/evenkeel-sim/src")) {
        let ignores = without_comments(&read(&path)).contains("let _ =");
        assert!(!ignores, "{}: take note of the refusal in the outcome's findings", path.display());
    }
}

mod the_scan_itself {
    use super::*;

    #[test]
    fn finds_names_that_are_compared() {
        let compared = ["if name == \"hdlwf\" {}", "match x { \"hdlwf\" => 1 }", "\"hdlwf\" != name"];
        assert!(compared.iter().all(|code| compared_names(code) == ["hdlwf"]));
        assert_eq!(compared_names("match policy.name {}"), ["match policy.name"]);
        assert!(compared_names("find(\"hdlwf\") // == \"hdlwf\"").is_empty());
    }

    #[test]
    fn multiplies_paths_out() {
        let code = "use std::{fmt, io::{self, Read}, collections::*};\nlet x = std::env::args();";
        let found = paths(code, &["std"]);
        assert_eq!(
            found,
            ["std::fmt", "std::io::self", "std::io::Read", "std::collections::*", "std::env::args"]
        );
        assert_eq!(paths("my_std::fs; a::std::fs; std; use std::fs as files;", &["std"]), ["std::fs"]);
    }

    #[test]
    fn finds_what_is_not_pure() {
        let impure = [
            "use std::fs;",
            "use std::{fmt, fs::File};",
            "use std::{\n    cmp::Ordering,\n    io,\n};",
            "let now = std::time::Instant::now();",
            "std::thread::spawn(f);",
            "use std::collections::{BinaryHeap, HashMap};",
            "use std::collections::*;",
            "use std::collections as c;",
            "rand::rng().next_u32()",
            "async fn f() {}",
            "f().await;",
            "print!(\"x\");",
            "eprintln!(\"x\");",
            "use tokio::spawn;",
            "static mut X: u32 = 0;",
        ];
        for source in impure {
            assert!(!impurities(source).is_empty(), "{source}");
        }
        let pure = [
            "use std::collections::{BTreeMap, BinaryHeap};",
            "use std::iter;",
            "use hashbrown::HashTable;",
            "// std::fs is banned",
            "/// println!(\"x\");",
            "static X: u32 = 0;",
            "use rand_core::Rng;",
        ];
        for source in pure {
            assert!(impurities(source).is_empty(), "{source}");
        }
    }

    #[test]
    fn finds_the_rooms_used() {
        let top = |source| rooms_used(source, &["bound"]);
        assert_eq!(top("use crate::model::Batch;"), ["model"]);
        assert_eq!(top("use crate::{model::{Batch, Part}, graph, bound::X};"), ["graph", "model"]);
        assert_eq!(top("use super::check;\nfn f() { crate::draw::g(); }"), ["check", "draw"]);
        assert_eq!(top("use super::{order, select::first};"), ["order", "select"]);
        assert_eq!(top("// crate::model\n/// [`crate::draw`]"), [""; 0]);
        assert_eq!(
            top("#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::draw::Seeded;"),
            ["draw"]
        );
        let deep = |source| rooms_used(source, &["graph", "level"]);
        assert_eq!(deep("use super::balance::Balance;"), [""; 0]);
        assert_eq!(deep("use super::super::order;"), ["order"]);
        assert_eq!(deep("use crate::graph::balance;"), [""; 0]);
    }

    #[test]
    fn reads_manifests() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n# c = 1\n\n\
                        [dependencies.d]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\ne = { path = \"e\" }\n\
                        [dev-dependencies]\nf = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(dependencies(manifest, is_for_building), ["a", "b", "d", "e"]);
        assert_eq!(dependencies(manifest, |header| header == "dev-dependencies"), ["f"]);
    }

    #[test]
    fn finds_local_paths() {
        let place = |path: &str| ["/", path].concat();
        assert!(has_local_path(&place("work/main")));
        assert!(has_local_path(&format!("see `{}`", place("root/x"))));
        assert!(!has_local_path(&format!("docs{} and ..{}", place("work/x"), place("root/x"))));
        assert!(!has_local_path("work/main"));
    }
}
