//! `cargo xtask reproduce`: the page of the full run in `docs/`, and its pictures in the README.

use std::fs;

use crate::run::{Result, browser, root, run};

const PAGE: &str = "docs/reproduce.html";
/// The figures that the README shows.
const SHOWN: [&str; 2] = ["000-fig4d", "004-fig12"];

pub(crate) fn reproduce() -> Result<()> {
    run("cargo", &["run", "--release", "--quiet", "-p", "evenkeel-cli", "--", "reproduce", "--html", PAGE])?;
    let page = fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    SHOWN.iter().try_for_each(|figure| picture(&page, figure))
}

/// Takes a picture of one figure with the browser.
fn picture(page: &str, figure: &str) -> Result<()> {
    let cut = |from: &str, to: &str| {
        let start = page.find(from)?;
        let end = page[start..].find(to)? + start + to.len();
        Some(&page[start..end])
    };
    let found = cut("<head>", "</head>").zip(cut(&format!("<figure id=\"{figure}\""), "</figure>"));
    let (head, drawn) =
        found.ok_or_else(|| format!("{PAGE} has no figure {figure}; name others in SHOWN"))?;
    let style =
        "<style>body { background: none; } .figure { margin: 4px; } details, .to { display: none; }</style>";
    let folder = root().join("target");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let file = folder.join("picture.html");
    fs::write(&file, format!("<!doctype html>{head}{style}{drawn}")).map_err(|error| error.to_string())?;
    let picture = root().join(format!("docs/reproduce-{figure}.png"));
    let args = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--log-level=3",
        "--window-size=560,440",
    ];
    // On a light card with a transparent background; two pixels per point, for sharp letters.
    let looks = [
        "--blink-settings=preferredColorScheme=1",
        "--default-background-color=00000000",
        "--force-device-scale-factor=2",
    ];
    let (to, of) = (format!("--screenshot={}", picture.display()), format!("file://{}", file.display()));
    run(browser()?, &[&args[..], &looks, &[&to, &of]].concat())
}
