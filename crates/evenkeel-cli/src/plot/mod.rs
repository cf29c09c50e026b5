//! All charts, as inline SVG. The style of the page sets colours and font sizes.
//!
//! * `figure`: a figure of a paper, with margins of error and the numbers that the paper states. Small, so that a page
//!   holds dozens.
//! * `lines`: lines over the width of the page, whose ticks have names.
//! * `bars`; `tiles`: many small charts side by side.

mod axis;
mod bars;
mod figure;
mod labels;
mod lines;
mod tiles;

pub(crate) use bars::{Bar, bars};
pub(crate) use figure::{legend, plot, rows};
pub(crate) use lines::{Line, lines, times};
pub(crate) use tiles::{Area, Heat, areas, heats};

use crate::html::escaped;

/// A chart as wide as the page, with its caption.
fn chart(width: f64, height: f64, svg: &str, caption: &str) -> String {
    format!(
        "<figure><div class=\"chart\"><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{0}\">\n{svg}</svg></div>\
         <figcaption>{0}</figcaption></figure>\n",
        escaped(caption)
    )
}
