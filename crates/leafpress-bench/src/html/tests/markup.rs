//! A strict reader of markup: what it takes, every browser reads in the same way.
//!
//! Must never: be more lenient than XML, but for the doctype and the elements without an end.

/// Elements that HTML ends itself.
const VOID: [&str; 2] = ["meta", "br"];

/// The page without what is neither markup nor text.
pub(super) fn without_style_and_script(page: &str) -> String {
    let mut rest = page.to_owned();
    for element in ["style", "script"] {
        let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
        let from = rest.find(&begin).expect("the element is there");
        let to = rest.find(&end).expect("the element has an end");
        rest.replace_range(from..to + end.len(), "");
    }
    rest
}

/// Text as it stands on the page.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Checks that every element ends, in its order, and every character is where it may be.
pub(super) fn check(page: &str) -> Result<(), String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no doctype")?;
    let mut open: Vec<&str> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at])?;
        let end = at + rest[at..].find('>').ok_or("a tag without an end")?;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let expected = open.pop().unwrap_or("nothing");
            if name != expected {
                return Err(format!("</{name}> where {expected} should end"));
            }
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if name.is_empty() || !name.chars().all(|char| char.is_ascii_alphanumeric()) {
            return Err(format!("<{name}"));
        }
        check_attributes(attributes, &mut ids)?;
        if !VOID.contains(&name) {
            open.push(name);
        }
    }
    check_text(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no end")) }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.contains('>') {
        return Err(format!("a bare > in {text:.60}"));
    }
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;"];
        if !known.iter().any(|entity| text[at..].starts_with(entity)) {
            return Err(format!("a bare & in {text:.60}"));
        }
    }
    Ok(())
}

/// `name="value"`, each name once, each id once on the page.
fn check_attributes<'t>(attributes: &'t str, ids: &mut Vec<&'t str>) -> Result<(), String> {
    let mut rest = attributes.trim_start();
    let mut names: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").ok_or(format!("no value: {rest}"))?;
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-';
        if name.is_empty() || !name.chars().all(is_name) || names.contains(&name) {
            return Err(format!("the attribute {name} in {attributes}"));
        }
        names.push(name);
        let (value, after) = after.split_once('"').ok_or(format!("no end: {rest}"))?;
        check_text(value)?;
        if name == "id" {
            if ids.contains(&value) {
                return Err(format!("the id {value} twice"));
            }
            ids.push(value);
        }
        rest = after.trim_start();
    }
    Ok(())
}

#[test]
fn what_is_wrong_is_found() {
    assert_eq!(check("<!DOCTYPE html><p class=\"a b\">1 &lt; 2<br></p>"), Ok(()));
    for wrong in [
        "<p></p>",
        "<!DOCTYPE html><p>",
        "<!DOCTYPE html><p><b></p></b>",
        "<!DOCTYPE html><p hidden></p>",
        "<!DOCTYPE html><p a=\"1\" a=\"2\"></p>",
        "<!DOCTYPE html><p id=\"1\"></p><p id=\"1\"></p>",
        "<!DOCTYPE html><p>a & b</p>",
        "<!DOCTYPE html><p>a > b</p>",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
