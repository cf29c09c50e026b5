//! Pictures of figures in pages that the command has written, for documents.

use std::fs;

use crate::run::{Result, browser, root, run};

/// The part of a page from one text to the end of another.
pub(crate) fn cut<'a>(page: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = page.find(from)?;
    let end = page[start..].find(to)? + start + to.len();
    Some(&page[start..end])
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
