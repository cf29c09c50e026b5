//! `cargo xtask reproduce`: the page of the full run in `docs/`, and its pictures in the README.

use std::fs;

use crate::picture::{cut, take};
use crate::run::{Result, root, run};

const PAGE: &str = "docs/reproduce.html";
/// The figures that the README shows.
const SHOWN: [&str; 2] = ["000-fig4d", "004-fig12"];

pub(crate) fn reproduce() -> Result<()> {
    run("cargo", &["run", "--release", "--quiet", "-p", "evenkeel-cli", "--", "reproduce", "--html", PAGE])?;
    let page = fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    SHOWN.iter().try_for_each(|figure| picture(&page, figure))
}

/// Takes a picture of one figure.
fn picture(page: &str, figure: &str) -> Result<()> {
    let found =
        cut(page, "<head>", "</head>").zip(cut(page, &format!("<figure id=\"{figure}\""), "</figure>"));
    let (head, drawn) =
        found.ok_or_else(|| format!("{PAGE} has no figure {figure}; name others in SHOWN"))?;
    let style =
        "<style>body { background: none; } .figure { margin: 4px; } details, .to { display: none; }</style>";
    take(head, &format!("{style}{drawn}"), (560, 440), &format!("docs/reproduce-{figure}.png"))
}
