//! Documents in XML, as servers and configurations have them: elements and the texts in them.

use quick_xml::events::Event;

/// An element that begins, or the text of one that ends.
pub(crate) enum Step<'a> {
    Begin(&'a str),
    End(&'a str, &'a str),
}

/// Walks through a document.
pub(crate) fn walk(xml: &str, mut visit: impl FnMut(Step<'_>) -> Result<(), String>) -> Result<(), String> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut text = String::new();
    loop {
        let event = reader.read_event().map_err(|error| format!("it is not well-formed: {error}"))?;
        match &event {
            Event::Start(start) => {
                text.clear();
                visit(Step::Begin(start.local_name().as_ref()))?;
            }
            Event::Empty(empty) => {
                visit(Step::Begin(empty.local_name().as_ref()))?;
                visit(Step::End(empty.local_name().as_ref(), ""))?;
                text.clear();
            }
            Event::End(end) => {
                visit(Step::End(end.local_name().as_ref(), text.trim()))?;
                text.clear();
            }
            Event::Text(part) => text.push_str(part),
            Event::CData(part) => text.push_str(part),
            Event::GeneralRef(reference) => text.push(match reference.as_ref() {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                other => reference
                    .resolve_char_ref()
                    .ok()
                    .flatten()
                    .ok_or_else(|| format!("`&{other};` stands for nothing"))?,
            }),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}
