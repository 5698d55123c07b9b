//! That no two source files of this crate import one another, not even by way of others.
//!
//! An edge leads from a file to the file that defines what a `use` names; re-exports are followed.
//! Test modules do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module: `["ladder", "rung"]`.
type Module = Vec<String>;

/// What a module names by `use`: path and name.
type Uses = Vec<(Vec<String>, String)>;

/// Adds the module in this file, and those that it declares.
fn add(modules: &mut BTreeMap<Module, Uses>, module: &Module, folder: &Path, file: &Path) {
    let text = fs::read_to_string(file).expect("a source file");
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let (mut uses, mut statement, mut is_test) = (Uses::new(), String::new(), false);
    for line in lines {
        let words = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        let words = words.trim_start_matches("pub ");
        if let Some(name) = words.strip_prefix("mod ").and_then(|it| it.strip_suffix(';')) {
            let child = [&module[..], &[name.to_owned()]].concat();
            let (file, inner) = (folder.join(format!("{name}.rs")), folder.join(name));
            let file = if file.exists() { file } else { inner.join("mod.rs") };
            if !is_test {
                add(modules, &child, &inner, &file);
            }
        }
        if !statement.is_empty() || words.starts_with("use ") {
            statement += words;
        }
        if statement.ends_with(';') {
            let tree = statement["use ".len()..statement.len() - 1].to_owned();
            if !is_test {
                expand(&[], &tree, &mut uses);
            }
            statement.clear();
        }
        is_test = line == "#[cfg(test)]" || (is_test && !statement.is_empty());
    }
    modules.insert(module.clone(), uses);
}

/// Adds the paths of a tree: `a::{b, c as d}` has `a::b` as `b` and `a::c` as `d`.
fn expand(before: &[String], tree: &str, uses: &mut Uses) {
    if let Some((head, rest)) = tree.split_once('{') {
        let head = head.split("::").filter(|it| !it.is_empty()).map(str::to_owned);
        let path: Vec<String> = before.iter().cloned().chain(head).collect();
        let (mut depth, mut part) = (0, String::new());
        for letter in rest[..rest.len() - 1].chars().chain([',']) {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            if letter == ',' && depth == 0 {
                expand(&path, part.trim(), uses);
                part.clear();
            } else {
                part.push(letter);
            }
        }
    } else if !tree.is_empty() {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = before.iter().cloned().chain(path.split("::").map(str::to_owned));
        let path: Vec<String> = path.filter(|it| it != "self" || before.is_empty()).collect();
        let name = if name.is_empty() {
            path.last().cloned().unwrap_or_default()
        } else {
            name.to_owned()
        };
        uses.push((path, name));
    }
}

/// The path from the crate's root on; `None` for another crate's.
fn absolute(module: &Module, path: &[String]) -> Option<Vec<String>> {
    let mut from = match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" | "super" => module.clone(),
        _ => return None,
    };
    let supers = path.iter().take_while(|it| *it == "super").count();
    from.truncate(module.len().checked_sub(supers)?);
    let rest = &path[supers.max(1)..];
    Some([&from[..], rest].concat())
}

/// The module that defines what stands at this path.
fn definition(modules: &BTreeMap<Module, Uses>, path: &[String]) -> Option<Module> {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
    let (module, rest) = (path[..length].to_vec(), &path[length..]);
    let Some(name) = rest.first() else { return Some(module) };
    let Some((path, _)) = modules[&module].iter().find(|(_, it)| it == name) else {
        return Some(module);
    };
    definition(modules, &[&absolute(&module, path)?[..], &rest[1..]].concat())
}

#[test]
fn no_files_import_one_another() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = BTreeMap::new();
    add(&mut modules, &Module::new(), &source, &source.join("lib.rs"));
    assert!(modules.len() > 100, "{} modules", modules.len());
    let mut edges: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, uses) in &modules {
        let paths = uses.iter().filter_map(|(path, _)| absolute(module, path));
        let others = paths.filter_map(|path| definition(&modules, &path));
        edges.insert(module, others.filter(|other| other != module).collect());
    }
    let count: usize = edges.values().map(BTreeSet::len).sum();
    assert!(count > 400, "{count} imports");
    // Whatever imports only what is gone already goes; a circle stays.
    loop {
        let left: BTreeSet<Module> = edges.keys().map(|module| (*module).clone()).collect();
        edges.retain(|_, others| others.iter().any(|other| left.contains(other)));
        if edges.len() == left.len() {
            break;
        }
    }
    assert!(edges.is_empty(), "a circle is among {:?}", edges.keys().collect::<Vec<_>>());
}
