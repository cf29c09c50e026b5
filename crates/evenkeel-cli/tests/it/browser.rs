//! Pages as a browser sees them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What came of opening a page.
pub(crate) struct Opened {
    /// The page as the browser understood it.
    pub(crate) dom: String,
    /// What it wrote to the console, errors included.
    pub(crate) console: Vec<String>,
    /// What it asked the network for; what the browser does by itself does not count.
    pub(crate) requests: Vec<String>,
}

/// Opens a file in Chromium, which must be there. Whatever is asked for, nothing leaves this machine.
pub(crate) fn open(page: &Path) -> Opened {
    open_at(page, 1100, false)
}

/// The same on a screen of that many pixels, in the light or in the dark.
pub(crate) fn open_at(page: &Path, width: u32, is_dark: bool) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let requests = folder.path().join("requests.json");
    let output = Command::new("timeout")
        .args(["120", chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--proxy-server=127.0.0.1:9",
        ])
        .args(["--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--window-size={width},2000"))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--log-net-log={}", requests.display()))
        .arg(format!("file://{}", page.canonicalize().unwrap().display()))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "Chromium: {log}");
    let console = log.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    let requests: Value =
        serde_json::from_slice(&std::fs::read(requests).unwrap()).expect("a log of requests");
    Opened { dom: String::from_utf8(output.stdout).unwrap(), console, requests: by_the_page(&requests) }
}

/// The first of Chromium's names that is there.
fn chromium() -> &'static str {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let works =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success());
    names.into_iter().find(works).expect("Chromium is there: `cargo xtask test` installs it")
}

/// The browser's own requests have an initiator that is “not an origin”.
fn by_the_page(log: &Value) -> Vec<String> {
    let events = log["events"].as_array().expect("events").iter().map(|event| &event["params"]);
    let by_the_page =
        events.filter(|event| event["initiator"].as_str().is_some_and(|it| it != "not an origin"));
    by_the_page.filter_map(|event| event["url"].as_str()).map(str::to_owned).collect()
}

/// What the other tests rely on.
#[test]
fn a_page_that_misbehaves_is_caught() {
    let folder = super::folder_with(&[(
        "page.html",
        "<!doctype html><link rel=stylesheet href='http://127.0.0.1:9/x.css'><script>console.error('ouch')</script><p>hello",
    )]);
    let opened = open(&folder.path().join("page.html"));
    assert!(opened.dom.contains("<p>hello"), "{}", opened.dom);
    assert!(opened.console.iter().any(|line| line.contains("ouch")), "{:?}", opened.console);
    assert!(opened.requests.iter().any(|url| url.ends_with("/x.css")), "{:?}", opened.requests);
}
