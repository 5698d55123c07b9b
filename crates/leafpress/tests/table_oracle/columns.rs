//! Which columns go where: chosen, renamed, left out, made; and several files.

use std::fs;

use leafpress::load::{Loader, OnError, Uuid7Form};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

use crate::judge::{answer, open_sound, texts};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn loader(folder: &TempDir) -> Loader {
    Loader::new(folder.path().join("a.db")).table("t")
}

fn open(folder: &TempDir) -> Connection {
    open_sound(&folder.path().join("a.db"))
}

#[test]
fn columns_are_chosen_renamed_left_out_and_trimmed() {
    let folder = folder(&[("in.csv", "id,name,x,y\n2, b ,q,1.5\n1,\ta,r,2.5\n")]);
    let shaped = loader(&folder)
        .rename("name", "Title")
        .drop_column("x")
        .select("y")
        .select("Title")
        .select("id")
        .trim(true)
        .primary_key("id")
        .index("title DESC, y");
    shaped.load_file(folder.path().join("in.csv")).unwrap();
    let database = open(&folder);
    let names = "SELECT name FROM pragma_table_info('t')";
    assert_eq!(texts(&database, names), ["y", "Title", "id"]);
    let rows = answer(&database, "SELECT id, Title, y FROM t ORDER BY rowid");
    assert_eq!(rows, ["Integer(1)|'a'|Real(2.5)", "Integer(2)|'b'|Real(1.5)"]);
}

#[test]
fn made_keys_ascend_in_the_order_of_the_input_in_any_form() {
    let rows: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let folder = folder(&[("in.csv", &format!("n\n{}\n", rows.join("\n")))]);
    for (form, without_rowid, length) in
        [(Uuid7Form::Text, false, 36), (Uuid7Form::Blob, true, 16), (Uuid7Form::Text, true, 36)]
    {
        let load = loader(&folder).uuid7("key", form).without_rowid(without_rowid).index("n DESC");
        load.load_file(folder.path().join("in.csv")).unwrap();
        let database = open(&folder);
        let ask = format!(
            "SELECT count(DISTINCT key) FROM t WHERE length(key) = {length} AND n = (SELECT \
             count(*) FROM t AS other WHERE other.key < t.key)"
        );
        // Few of them: the count is quadratic.
        let few = format!("{ask} AND n % 500 = 3");
        assert_eq!(answer(&database, &few), ["Integer(10)"]);
        assert_eq!(answer(&database, "SELECT count(DISTINCT key) FROM t"), ["Integer(5000)"]);
        drop(database);
        fs::remove_file(folder.path().join("a.db")).unwrap();
    }
}

#[test]
fn a_file_with_other_columns_is_refused_and_the_difference_named() {
    let folder = folder(&[("one.csv", "a,b\n1,2\n"), ("other.csv", "c,a\n3,4\n")]);
    let files = [folder.path().join("one.csv"), folder.path().join("other.csv")];
    let error = loader(&folder).load_files(&files).unwrap_err().to_string();
    for part in ["one.csv: b", "other.csv: c"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!folder.path().join("a.db").exists());
}

#[test]
fn rejects_of_several_files_stand_in_the_order_of_the_files() {
    let one = "id,n\n1,a\n2,b\n3,c\n1,late\n";
    let other = "n,id\nagain,2\nd,4\nworse,short,long\nagain,1\n";
    let folder = folder(&[("z.csv", one), ("b.csv", other)]);
    let files = [folder.path().join("z.csv"), folder.path().join("b.csv")];
    let rejects = Some(folder.path().join("bad"));
    let on_error = OnError::Skip { rejects, max_rejects: None };
    let load = loader(&folder).declaration("CREATE TABLE t (id INT PRIMARY KEY, n TEXT)");
    let report = load.on_error(on_error).load_files(&files).unwrap();
    assert_eq!((report.rows_loaded, report.rows_rejected), (4, 4));
    let bad = fs::read_to_string(folder.path().join("bad")).unwrap();
    // In the order of the first one's columns, as far as the row has them.
    assert_eq!(bad, "id,n\n1,late\n2,again\nworse,short,long\n1,again\n");
    let log = fs::read_to_string(folder.path().join("bad.log")).unwrap();
    assert!(log.lines().nth(1).unwrap().contains("z.csv, line 3, has its unique value"), "{log}");
}
