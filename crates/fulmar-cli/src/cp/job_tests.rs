//! What becomes of the files of a job, whatever becomes of their tasks.

use super::*;
use crate::cp::message::Meta;
use crate::cp::store::Store;

fn job(names: &[(&str, u64)]) -> (tempfile::TempDir, Job) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let item = |(name, size_bytes): &(&str, u64)| Item {
        store: Arc::clone(&store),
        local: name.as_bytes().to_vec(),
        remote: name.as_bytes().to_vec(),
        meta: Meta { size_bytes: *size_bytes, ..Meta::default() },
        may_be_there: false,
    };
    let plan = Plan { items: names.iter().map(item).collect(), ..Plan::default() };
    (folder, Job::new(Direction::Up, plan, &Arc::default()))
}

fn names<'a>(paths: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<String> {
    let mut names: Vec<_> = paths.into_iter().map(|path| String::from_utf8(path.clone()).unwrap()).collect();
    names.sort();
    names
}

fn done() -> Outcome {
    Outcome { size_bytes: 1, ..Outcome::default() }
}

#[tokio::test]
async fn a_copy_that_panics_is_named_and_the_others_go_on() {
    let (_folder, mut job) = job(&["a", "b", "c", "d"].map(|name| (name, 1)));
    let work = job.copy_all(Bound::files(2), |item, _| async move {
        assert!(item.local != b"b", "on purpose");
        Ok(done())
    });
    work.await.unwrap();
    assert_eq!(names(job.done.iter().map(|(item, _)| &item.local)), ["a", "c", "d"]);
    assert_eq!(names(job.failed.iter().map(|failed| &failed.local)), ["b"]);
    let failure = job.verdict().unwrap();
    assert_eq!(failure.exit_code(), 7);
    assert!(
        failure.to_string().starts_with("b: ") && failure.to_string().contains("on purpose"),
        "{failure}"
    );
}

#[tokio::test]
async fn every_file_is_in_a_list_when_the_connection_is_lost() {
    let (_folder, mut job) = job(&["a", "b", "c", "d"].map(|name| (name, 1)));
    let work = job.copy_all(Bound::files(3), |item, _| async move {
        if item.local == b"a" {
            return Ok(done());
        }
        Err(TransferError::Connection(std::io::ErrorKind::ConnectionReset.into()))
    });
    assert!(work.await.is_err());
    let listed = job.done.iter().map(|(item, _)| &item.local);
    let listed = listed.chain(job.failed.iter().map(|failed| &failed.local));
    assert_eq!(names(listed.chain(job.waiting().map(|item| &item.local))), ["a", "b", "c", "d"]);
}

/// A large file without room stopped all that had not begun, however small.
#[tokio::test]
async fn what_is_smaller_than_the_file_without_room_is_tried() {
    let (_folder, mut job) = job(&[("large", 100), ("larger", 101), ("small", 1), ("tiny", 0)]);
    let work = job.copy_all(Bound::files(1), |item, _| async move {
        match item.meta.size_bytes {
            100.. => Err(TransferError::Remote(FileError::new(FileCode::Full, "no room"))),
            _ => Ok(done()),
        }
    });
    work.await.unwrap();
    assert_eq!(names(job.done.iter().map(|(item, _)| &item.local)), ["small", "tiny"]);
    assert_eq!(names(job.failed.iter().map(|failed| &failed.local)), ["large"]);
    assert_eq!(names(job.waiting().map(|item| &item.local)), ["larger"]);
    let failure = job.verdict().unwrap();
    assert_eq!((failure.exit_code(), failure.to_string().contains("2 of 4")), (5, true), "{failure}");
}

#[test]
fn many_small_files_go_at_once_and_few_large_ones() {
    let bound = Bound::default();
    let most = |bytes: u64| (0..10_000).find(|files| !bound.admits(*files, (*files as u64 + 1) * bytes));
    assert_eq!(most(4096), Some(256));
    assert_eq!(most(1 << 20), Some(64));
    assert_eq!(most(1 << 30), Some(16));
    assert!(Bound::files(300).admits(299, u64::MAX) && !Bound::files(300).admits(300, 0));
}

#[test]
fn what_is_inside_of_a_folder_is_known_by_its_path() {
    let unmade = HashSet::from([b"a/b".to_vec()]);
    for (path, is_lost) in
        [("a/b/c", true), ("a/b/c/d", true), ("a/b", false), ("a/bc/d", false), ("b/a", false)]
    {
        assert_eq!(is_inside(path.as_bytes(), &unmade), is_lost, "{path}");
    }
}
