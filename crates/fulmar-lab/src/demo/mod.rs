//! The demo of the program `fulmar` beside the kernel's TCP: all copy the same file at the same time, over
//! paths that are equal down to the losses.

mod kernel;
mod test_path;

use std::path::Path;

use fulmar_cli::demo::course::Course;
use fulmar_cli::demo::display::Display;
use fulmar_cli::demo::race::{Run, SAMPLE_INTERVAL};
use fulmar_cli::demo::{ShowArgs, show};
use fulmar_cli::exit::Failure;

use kernel::Kernel;

/// Shows it beside these congestion controls of the kernel. Needs a runtime of several threads.
///
/// # Errors
/// If the bridges cannot be made, or somebody fails.
pub async fn beside(args: &ShowArgs, tcp: &[String]) -> Result<(), Failure> {
    show(args, async |course, display, folder| race(&args.profile, tcp, course, display, folder).await).await
}

/// Fulmar and kernel TCP at the same time, until Fulmar is done.
async fn race(
    profile: &str,
    tcp: &[String],
    course: &Course,
    display: &Display,
    folder: &Path,
) -> Result<Vec<Run>, Failure> {
    let path = test_path::bridged(course)?;
    let rivals = tcp.iter().map(|congestion| Kernel::start(course, congestion));
    let rivals = rivals.collect::<Result<Vec<_>, _>>()?;
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    let place = folder.join("first");
    let mut fulmar = std::pin::pin!(course.run(path, profile, None, display, &place));
    let first = loop {
        tokio::select! {
            run = &mut fulmar => break run?,
            _ = ticks.tick() => rivals.iter().for_each(|rival| display.show(&rival.sample(course.file_bytes))),
        }
    };
    let mut runs = vec![first];
    for rival in rivals {
        let run = tokio::task::block_in_place(|| rival.finish())?;
        display.end(&run.profile, &run.words());
        runs.push(run);
    }
    Ok(runs)
}
