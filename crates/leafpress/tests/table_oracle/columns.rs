//! Which columns go where: chosen, renamed, left out, made; and several files.

use std::fs;
use std::path::PathBuf;

use leafpress::load::{ColumnType, CsvOptions, Loader, OnError, Ragged, Uuid7Form};
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
    // In the order of the first one's columns, a surplus field behind them.
    assert_eq!(bad, "id,n\n1,late\n2,again\nshort,worse,long\n1,again\n");
    let log = fs::read_to_string(folder.path().join("bad.log")).unwrap();
    assert!(log.lines().nth(1).unwrap().contains("z.csv, line 3, has its unique value"), "{log}");
}

/// Two inputs whose rows of `b` are no integers, and the rejects.
struct OfTwo {
    csv: CsvOptions,
    one: &'static str,
    two: &'static str,
    rejects: &'static str,
}

#[test]
fn rejects_of_another_form_mean_the_same_behind_the_first_header() {
    let csv = CsvOptions::default;
    for OfTwo { csv, one, two, rejects } in [
        // A short row is filled, where it was.
        OfTwo {
            csv: csv().ragged(Ragged::Pad),
            one: "a,b\n",
            two: "b,a\nx\n",
            rejects: "a,b\n,x\n",
        },
        // It stays short, with the fields that it has.
        OfTwo { csv: csv(), one: "a,b,c\n", two: "b,c,a\n5,x\n", rejects: "a,b,c\n5,x\n" },
        OfTwo {
            csv: csv().ragged(Ragged::Truncate),
            one: "a,b\n",
            two: "b,a\nx,1,9\n",
            rejects: "a,b\n1,x,9\n",
        },
        OfTwo {
            csv: csv().comment(b'#'),
            one: "a,b\n",
            two: "b,a\nx,#new\n",
            rejects: "a,b\n\"#new\",x\n",
        },
        OfTwo {
            csv: csv(),
            one: "a,b\n1,2\n",
            two: "a;b\n5\" pipe, long;x\n\"p\"q, r;y\n",
            rejects: "a,b\n\"5\"\" pipe, long\",x\n\"pq, r\",y\n",
        },
        OfTwo { csv: csv(), one: "b,a\n", two: "a,b\nx\r,y\n", rejects: "b,a\ny,\"x\r\"\n" },
        OfTwo {
            csv: csv().quote(None).escape(b'\\'),
            one: "a,b\n1,2\n",
            two: "a;b\np, q\\;r;x\n",
            rejects: "a,b\np\\, q;r,x\n",
        },
    ] {
        let folder = folder(&[("one.csv", one), ("two.csv", two)]);
        let files = ["one.csv", "two.csv"].map(|name| folder.path().join(name));
        let load = |files: &[PathBuf], table: &str, rejects: &str| {
            let rejects = Some(folder.path().join(rejects));
            loader(&folder)
                .table(table)
                .csv(csv.clone())
                .column_type("b", ColumnType::Integer)
                .on_error(OnError::Skip { rejects, max_rejects: None })
                .load_files(files)
                .unwrap()
        };
        let rejected = load(&files, "t", "bad").rows_rejected;
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("bad"), rejects);
        // As they are they are bad again.
        let again = load(&[folder.path().join("bad")], "u", "again");
        assert_eq!((again.rows_read, again.rows_rejected), (rejected, rejected), "{rejects:?}");
        assert_eq!(read("again"), rejects);
    }
}

#[test]
fn rejects_that_no_one_header_describes_are_refused_beforehand() {
    for (csv, one, two, reason) in [
        (CsvOptions::default(), "id,name\n", "id,phone\nx,555\n", "have different columns"),
        (CsvOptions::default(), "id,name,phone\n", "id,phone\nx,555\n", "have different columns"),
        (CsvOptions::default(), "id,name\n", "id,name,phone\nx,y,555\n", "have different columns"),
        (CsvOptions::default().quote(None), "id,name\n", "name,id\n", "without a quote byte"),
    ] {
        let folder = folder(&[("one.csv", one), ("two.csv", two)]);
        let files = ["one.csv", "two.csv"].map(|name| folder.path().join(name));
        let load = |rejects: Option<PathBuf>| {
            let sql = "CREATE TABLE t (id INTEGER, name TEXT, phone TEXT)";
            let load = loader(&folder).declaration(sql).csv(csv.clone());
            load.on_error(OnError::Skip { rejects, max_rejects: None }).load_files(&files)
        };
        let error = load(Some(folder.path().join("bad"))).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert!(!folder.path().join("bad").exists() && !folder.path().join("a.db").exists());
        load(None).unwrap();
    }
}
