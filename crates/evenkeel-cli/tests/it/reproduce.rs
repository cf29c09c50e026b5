//! `reproduce`: claims and figures, for people, for machines, and as a page.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{browser, evenkeel, json, names_in, printed, root, stderr};

/// A quick run of everything.
struct Run {
    object: Value,
    page: String,
}

fn run(n_threads: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let args = ["reproduce", "--quick", "--threads", n_threads, "--json", "--html", "page.html"];
    let mut object = json(&args, folder.path());
    let timings = object.as_object_mut().unwrap().remove("timings").unwrap();
    assert_eq!(timings["threads"].to_string(), n_threads);
    assert!(timings["seconds"].as_f64() > Some(0.0));
    Run { object, page: fs::read_to_string(folder.path().join("page.html")).unwrap() }
}

/// It takes a while, and several tests look at it.
fn on_two_threads() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| run("2"))
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object[name].as_array().unwrap_or_else(|| panic!("{name} in {object}"))
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_else(|| panic!("{name} in {object}"))
}

/// What all claims, or figures, are called.
fn ids<'a>(run: &'a Run, lists: &str, name: &str) -> HashSet<&'a str> {
    let ids: Vec<&str> = list(&run.object, lists).iter().map(|it| text(it, name)).collect();
    let unique: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    unique
}

#[test]
fn one_seed_gives_the_same_bytes_on_one_and_on_two_threads() {
    let (one, two) = (run("1"), on_two_threads());
    assert_eq!(one.object.to_string(), two.object.to_string());
    assert!(one.page == two.page);
    let folder = tempfile::tempdir().unwrap();
    let of_seed = |seed| printed(&["reproduce", "000", "--quick", "--seed", seed, "--json"], folder.path());
    let figures = |text: &str| serde_json::from_str::<Value>(text).unwrap()["figures"].clone();
    assert_ne!(figures(&of_seed("0")), figures(&of_seed("1")), "the seed matters");
}

/// All that a reader needs in order to judge is there, and refers to what is there.
#[test]
fn claims_are_complete() {
    let run = on_two_threads();
    assert_eq!((run.object["format"].as_u64(), run.object["seed"].as_u64()), (Some(1), Some(0)));
    let papers = ids(run, "papers", "paper");
    let (claims, figures) = (ids(run, "claims", "claim"), ids(run, "figures", "figure"));
    for claim in list(&run.object, "claims") {
        assert!(papers.contains(text(claim, "paper")), "{claim}");
        assert!(text(claim, "claim").starts_with(text(claim, "paper")), "{claim}");
        for field in ["section", "paper_says", "rule", "measured", "why"] {
            assert!(!text(claim, field).is_empty(), "{field} of {claim}");
        }
        for judged in list(claim, "variations").iter().chain([claim]) {
            assert!(
                ["holds", "with conditions", "does not hold"].contains(&text(judged, "verdict")),
                "{judged}"
            );
            assert!(!text(judged, "measured").contains("NaN"), "{judged}");
        }
        assert!(claim["figure"].is_null() || figures.contains(text(claim, "figure")), "{claim}");
    }
    for id in claims.iter().chain(&figures).chain(&papers) {
        assert_eq!(run.page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    for figure in list(&run.object, "figures") {
        let points: usize = list(figure, "lines").iter().map(|line| list(line, "points").len()).sum();
        assert!(points > 0, "{figure}");
    }
}

#[test]
fn the_page_opens_in_a_browser_and_loads_nothing() {
    let run = on_two_threads();
    for loaded in ["<script", "http:", "https:", "src=", "url(", "@import", "<link"] {
        assert!(!run.page.contains(loaded), "{loaded}");
    }
    let folder = super::folder_with(&[("page.html", &run.page)]);
    let opened = browser::open(&folder.path().join("page.html"));
    assert_eq!(opened.console, [""; 0]);
    assert_eq!(opened.requests, [""; 0]);
    let n_figures = list(&run.object, "figures").len();
    assert_eq!(opened.dom.matches("<svg class=\"plot\"").count(), n_figures);
    assert!(!opened.dom.contains("NaN"));
}

/// Narrow or wide, in the light or in the dark, with all tables open: nothing is wider than the page, and colours follow.
#[test]
fn the_page_suits_its_reader() {
    const SCRIPT: &str = "<script>document.querySelectorAll('details').forEach(it => it.open = true);
        const root = document.documentElement;
        document.title = `wider by ${root.scrollWidth - root.clientWidth}, on ${getComputedStyle(document.body).backgroundColor}`;
        </script></body>";
    let page = on_two_threads().page.replace("Content-Security-Policy", "x").replace("</body>", SCRIPT);
    let folder = super::folder_with(&[("page.html", &page)]);
    for (width, is_dark, background) in
        [(500, false, "rgb(255, 255, 255)"), (500, true, "rgb(18, 23, 30)"), (1100, true, "rgb(18, 23, 30)")]
    {
        let opened = browser::open_at(&folder.path().join("page.html"), width, is_dark);
        let title = opened.dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        assert_eq!(title, Some(format!("wider by 0, on {background}").as_str()), "{width} {is_dark}");
    }
}

/// The page of the full run that the README shows is of these claims and figures.
#[test]
fn the_page_in_the_documents_is_up_to_date() {
    let page = fs::read_to_string(root().join("docs/reproduce.html")).unwrap();
    assert!(!page.contains("quick run"));
    let run = on_two_threads();
    for id in ids(run, "claims", "claim").iter().chain(&ids(run, "figures", "figure")) {
        assert!(page.contains(&format!(" id=\"{id}\"")), "{id} is missing: cargo xtask reproduce");
    }
    let n_cards = |page: &str| (page.matches("<article ").count(), page.matches("<figure ").count());
    assert_eq!(n_cards(&page), n_cards(&run.page), "cargo xtask reproduce");
}

#[test]
fn people_get_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&["reproduce", "000", "--quick"], folder.path());
    assert!(text.starts_with("000 Wu, Liu: ") && text.contains("\n  000-"), "{text}");
    assert!(text.contains(" of 1 paper: ") && text.contains("A quick run"), "{text}");
    let page = printed(&["reproduce", "000", "--quick", "--html", "-"], folder.path());
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
}

#[test]
fn wrong_usage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        ("reproduce 000 7", "there is no paper `7`; the papers are 000"),
        ("reproduce --quick --html nowhere/page.html", "cannot write nowhere/page.html"),
        ("reproduce --live 004 003", "paper `003` cannot be checked with --live; 004 can"),
        ("reproduce --live 7", "paper `7` cannot be checked with --live; 004 can"),
        ("reproduce --live 004 --threads 2", "cannot be used with"),
        ("reproduce --live 004 --html nowhere/page.html", "cannot write nowhere/page.html"),
        ("reproduce 004 --writes 20", "--live"),
        ("reproduce --threads 100000", "100000 is not in 0..=1024"),
    ] {
        let output = evenkeel(&args.split(' ').collect::<Vec<_>>(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{args}");
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
}

/// `reproduce --live`, whose data is below `folder`.
fn live(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["reproduce", "--live", "004", "--quick"]).args(args).current_dir(folder);
    command.env("TMPDIR", folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether processes run that were started with this folder.
fn is_in_use(folder: &Path) -> bool {
    let name = folder.to_str().unwrap().as_bytes();
    let of_process = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let mut all = fs::read_dir("/proc").unwrap().flatten().map(of_process);
    all.any(|line| line.windows(name.len()).any(|part| part == name))
}

/// Real nodes, with so few writes that only the form of the report says something.
#[test]
fn claims_are_checked_on_real_servers() {
    let folder = tempfile::tempdir().unwrap();
    let output = live(&["--writes", "12", "--json", "--html", "page.html"], folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["format"], 1);
    assert_eq!((&object["live"]["servers"], &object["live"]["writes"]), (&Value::from(10), &Value::from(12)));
    let claims = list(&object, "claims");
    assert!(claims.len() >= 15, "{}", claims.len());
    let verdicts = ["holds", "with conditions", "does not hold"];
    for claim in claims {
        for field in ["section", "paper_says", "rule", "why"] {
            assert!(!text(claim, field).is_empty(), "{field} of {claim}");
        }
        let variations = list(claim, "variations").iter();
        let simulated =
            variations.clone().chain([claim]).map(|of| &of["simulated"]).filter(|of| !of.is_null());
        for judged in variations.chain([claim]).chain(simulated) {
            assert!(verdicts.contains(&text(judged, "verdict")), "{judged}");
            assert!(!text(judged, "measured").contains("NaN"), "{judged}");
        }
    }
    let claim = |id: &str| claims.iter().find(|claim| claim["claim"] == id).unwrap();
    for id in ["004-probes", "004-home", "004-sum"] {
        assert_eq!(text(claim(id), "verdict"), "holds", "{}", claim(id));
    }
    // The same writes with the same homes, which rr leaves there.
    let first = &list(&list(&object, "rounds")[0], "placements")[0];
    assert_eq!(
        (text(first, "placement"), &first["live"][0]["bytes"]),
        ("rr", &first["simulated"][0]["bytes"])
    );
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    for claim in claims {
        assert_eq!(page.matches(&format!(" id=\"{}\"", text(claim, "claim"))).count(), 1, "{claim}");
    }
    assert_eq!(names_in(folder.path()), ["page.html"]);
    assert!(!is_in_use(folder.path()));
}

#[test]
fn what_is_live_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = live(&[], folder.path()).spawn().unwrap();
    let begun = Instant::now();
    while !is_in_use(folder.path()) {
        assert!(begun.elapsed() < Duration::from_mins(1), "no node is started");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names_in(folder.path()), [""; 0]);
    assert!(!is_in_use(folder.path()));
}
