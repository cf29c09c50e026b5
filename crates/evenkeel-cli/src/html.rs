//! Self-contained HTML pages: one file, no script, no network; for light and dark themes, wide and narrow screens.

use std::fmt::Write as _;

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page with this title; the body is HTML.
pub(crate) fn page(title: &str, body: &str) -> String {
    page_with("", title, body)
}

/// The same with more in its head, such as styles.
pub(crate) fn page_with(head: &str, title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n{head}</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d8dee6; --paper: #ffffff; --card: #f6f8fa;
  --bar: #3b7dd8; --best: #2a9d63; --mark: #c2410c; --c0: #3b7dd8; --c1: #d9822b; --c2: #2a9d63; --c3: #b5467f; --c4: #7a5bd0;
  --c5: #8a6d1f; --c6: #1795a3; --c7: #d64545; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #323c49; --paper: #12171e;
  --card: #1a212a; --bar: #6ba4f0; --best: #4cc38a; --mark: #fb923c; --c0: #6ba4f0; --c1: #f5a85a; --c2: #4cc38a; --c3: #ec83b7;
  --c4: #a78bfa; --c5: #d6b656; --c6: #4fd1dd; --c7: #ff8080; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
body { overflow-wrap: anywhere; } p { max-width: 46rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
tr:last-child td { border-bottom: 0; } thead th { color: var(--soft); font-weight: 600; }
tr.best td { color: var(--best); font-weight: 600; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .value { fill: var(--soft); stroke: var(--card); stroke-width: 5px; paint-order: stroke; }
svg .bar { fill: var(--bar); } svg .best { fill: var(--best); }
svg .mark { stroke: var(--mark); stroke-width: 2; stroke-dasharray: 5 4; } svg .marked { fill: var(--mark); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .8rem; }
.card { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .6rem .8rem; }
.card svg { margin-top: .4rem; }
.chart { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .8rem; overflow-x: auto; }
.chart svg { min-width: 34rem; }
svg .grid-line { stroke: var(--line); } svg .whisker { stroke: var(--ink); stroke-width: 1.5; }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; } svg .heat { fill: var(--bar); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin-bottom: .5rem; font-size: .93rem; }
.key i { display: inline-block; width: 1.1rem; height: .25rem; border-radius: 2px; margin-right: .4rem; vertical-align: middle; }
.heats { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: .8rem; }
.ends { display: flex; justify-content: space-between; font-size: .8rem; color: var(--soft); }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9rem; margin-top: .4rem; }
";

/// A table. Rows with the flag set are highlighted.
pub(crate) fn table(header: &[&str], rows: &[(bool, Vec<String>)]) -> String {
    let mut text = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    header.iter().for_each(|name| {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escaped(name));
    });
    text.push_str("</tr></thead>\n<tbody>\n");
    for (is_best, cells) in rows {
        text.push_str(if *is_best { "<tr class=\"best\">" } else { "<tr>" });
        cells.iter().for_each(|cell| {
            let _ = write!(text, "<td>{}</td>", escaped(cell));
        });
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
    text
}
