//! Names and labels in charts, of any length.

/// The width of a text in a chart, estimated generously.
pub(super) fn text_width(text: &str) -> f64 {
    const CHARACTER: f64 = 8.5;
    CHARACTER * text.chars().count() as f64
}

/// The text, or if it is too long its start and its end with a … between them.
pub(super) fn shortened(text: &str, most_chars: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= most_chars {
        return text.to_owned();
    }
    let kept = most_chars.saturating_sub(1);
    let (start, end) = (kept.div_ceil(2), kept / 2);
    chars[..start].iter().chain(&['…']).chain(&chars[chars.len() - end..]).collect()
}

/// The names as shown beside each other. If one is too long, the common start or end of all names is removed.
pub(super) fn distinct(names: &[&str], most_chars: usize) -> Vec<String> {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    if longest <= most_chars || names.len() < 2 {
        return names.iter().map(|name| shortened(name, most_chars)).collect();
    }
    let mut names: Vec<Vec<char>> = names.iter().map(|name| name.chars().rev().collect()).collect();
    let after = if drop_common_start(&mut names) { "…" } else { "" };
    names.iter_mut().for_each(|name| name.reverse());
    let is_long = |name: &Vec<char>| name.len() + after.chars().count() > most_chars;
    let before = if names.iter().any(is_long) && drop_common_start(&mut names) { "…" } else { "" };
    let with_signs = |name: &Vec<char>| format!("{before}{}{after}", name.iter().collect::<String>());
    names.iter().map(|name| shortened(&with_signs(name), most_chars)).collect()
}

/// Removes the common start of all names, unless it is hardly longer than the sign that replaces it.
fn drop_common_start(names: &mut [Vec<char>]) -> bool {
    const SHORTEST: usize = 4;
    let n_common = |a: &[char], b: &[char]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let common = names.iter().map(|name| n_common(name, &names[0])).min().unwrap_or(0);
    if common < SHORTEST {
        return false;
    }
    names.iter_mut().for_each(|name| _ = name.drain(..common));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_distinct() {
        assert_eq!(shortened("abcdefgh", 8), "abcdefgh");
        assert_eq!(shortened("abcdefghi", 8), "abcd…ghi");
        assert_eq!(distinct(&["a", "b"], 3), ["a", "b"]);
        assert_eq!(distinct(&["node-1.example.org", "node-10.example.org"], 9), ["node-1…", "node-10…"]);
        assert_eq!(distinct(&["/data/disks/ssd/a1", "/data/disks/ssd/b12"], 9), ["…a1", "…b12"]);
        assert_eq!(distinct(&["same-name", "same-name"], 5), ["…", "…"]);
        assert_eq!(distinct(&["", "äöüäöüäöü"], 5), ["", "äö…öü"]);
        assert_eq!(distinct(&["abcdefgh"], 4), ["ab…h"]);
    }
}
