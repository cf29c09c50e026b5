//! Pictures of figures in pages that the command has written, for documents.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::{Result, browser, output, root, run};

/// The part of a page from one text to the end of another.
pub(crate) fn cut<'a>(page: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = page.find(from)?;
    let end = page[start..].find(to)? + start + to.len();
    Some(&page[start..end])
}

/// Replays a trace. Returns the seconds that it tells of, and the page.
pub(crate) fn replay(evenkeel: &Path, trace: &Path) -> Result<(f64, String)> {
    let html = trace.with_extension("html");
    let told =
        output(Command::new(evenkeel).arg("replay").arg(trace).arg("--html").arg(&html).arg("--json"))?;
    let told: Value = serde_json::from_str(&told).map_err(|error| error.to_string())?;
    let seconds = told["seconds"].as_f64().ok_or("the replay tells no seconds")?;
    let page = fs::read_to_string(&html).map_err(|error| format!("{}: {error}", html.display()))?;
    Ok((seconds, page))
}

/// Takes a picture of what each server sent over time, from the pages of replays with their titles, one below the other.
pub(crate) fn take_replays(pages: &[(String, &str)], picture: &str) -> Result<()> {
    let (mut head, mut body) = (String::new(), String::new());
    for (title, page) in pages {
        let found = cut(page, "<head>", "</head>").zip(cut(page, "<div class=\"key\">", "</figure>"));
        let (of_page, figure) = found.ok_or("the page of a replay has no figure")?;
        of_page.clone_into(&mut head);
        let _ = write!(body, "<section><h2>{title}</h2>{figure}</section>");
    }
    let style = "<style>body { background: none; } section { margin: 4px 4px 16px; } h2 { margin: 0 0 4px; } \
                 figcaption { display: none; }</style>";
    take(&head, &format!("{style}{body}"), (900, 440 * pages.len() as u32), picture)
}

/// Takes a picture with the browser: `body`, with the head of the page that it comes from.
pub(crate) fn take(head: &str, body: &str, size: (u32, u32), picture: &str) -> Result<()> {
    let folder = root().join("target");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let file = folder.join("picture.html");
    fs::write(&file, format!("<!doctype html>{head}{body}")).map_err(|error| error.to_string())?;
    let window = format!("--window-size={},{}", size.0, size.1);
    let args = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--log-level=3", &window];
    // On a light card with a transparent background; two pixels per point, for sharp letters.
    let looks = [
        "--blink-settings=preferredColorScheme=1",
        "--default-background-color=00000000",
        "--force-device-scale-factor=2",
    ];
    let to = format!("--screenshot={}", root().join(picture).display());
    run(browser()?, &[&args[..], &looks, &[&to, &format!("file://{}", file.display())]].concat())
}
