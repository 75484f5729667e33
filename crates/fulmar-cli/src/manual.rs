//! Manual pages and completions, from the definition of a command line: a page for the program and one for
//! each command.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

/// Files that a program reads or writes: their names, and what they hold.
pub type Files<'a> = &'a [(&'a str, &'a str)];

/// A manual page.
#[derive(Debug)]
struct Page {
    file_name: String,
    text: Vec<u8>,
}

/// Writes a page for each command into a folder, where `man` finds them.
///
/// # Errors
/// If the folder or a page cannot be written.
pub fn write_into(folder: &Path, program: Command, files: Files<'_>) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    pages(program, files)?
        .iter()
        .try_for_each(|page| std::fs::write(folder.join(&page.file_name), &page.text))
}

/// All pages, one behind the other.
///
/// # Errors
/// None that a program without a disk could meet.
pub fn whole(program: Command, files: Files<'_>) -> io::Result<Vec<u8>> {
    Ok(pages(program, files)?.into_iter().flat_map(|page| page.text).collect())
}

/// Prints a shell's completions. They are whole before the first byte is printed: a reader that has read
/// enough is no error.
pub fn complete(shell: clap_complete::Shell, mut program: Command) {
    let (name, mut text) = (program.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut program, name, &mut text);
    print!("{}", String::from_utf8_lossy(&text));
}

fn pages(program: Command, files: Files<'_>) -> io::Result<Vec<Page>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let commands: Vec<&Command> =
        program.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let name = |command: &Command| command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let every = commands.iter().map(|command| name(command));
    let mut pages = vec![page(&program, files, &every.collect::<Vec<_>>())?];
    for command in &commands {
        let related = commands.iter().filter(|other| names(command, &program, other));
        let see = std::iter::once(name(&program)).chain(related.map(|other| name(other)));
        pages.push(page(command, &[], &see.collect::<Vec<_>>())?);
    }
    Ok(pages)
}

/// Whether the help of `command` has the name of another in it.
fn names(command: &Command, program: &Command, other: &Command) -> bool {
    let help = command.clone().render_long_help().to_string();
    let (program, other_name) = (program.get_name(), other.get_name());
    command.get_name() != other_name
        && [format!("{program} {other_name} "), format!("{program} {other_name}`"), format!("`{other_name}`")]
            .iter()
            .any(|word| help.contains(word))
}

fn page(command: &Command, files: Files<'_>, see_also: &[String]) -> io::Result<Page> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut end = Roff::new();
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    help.map(ToString::to_string).iter().for_each(|help| sections(&mut end, help));
    if !files.is_empty() {
        end.control("SH", ["FILES"]);
        for (file, holds) in files {
            end.control("TP", []);
            end.text([bold(*file)]);
            end.text([roman(*holds)]);
        }
    }
    end.control("SH", ["SEE ALSO"]);
    // A line each: `man` fills them up, and divides no name.
    end.control("nh", []);
    let last = see_also.len().saturating_sub(1);
    for (number, name) in see_also.iter().enumerate() {
        end.text([bold(name), roman(if number < last { "(1)," } else { "(1)" })]);
    }
    end.to_writer(&mut text)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut text)?;
    }
    Ok(Page { file_name: man.get_filename(), text })
}

/// What stands below the options in `--help`: each heading becomes a section, and its lines stay as they are.
fn sections(roff: &mut Roff, help: &str) {
    let mut sections: Vec<(String, Vec<&str>)> = Vec::new();
    for line in help.lines().filter(|line| !line.is_empty()) {
        match line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')) {
            Some("Exit codes") => sections.push(("EXIT STATUS".into(), Vec::new())),
            Some(heading) => sections.push((heading.to_uppercase(), Vec::new())),
            None if sections.is_empty() => sections.push(("NOTES".into(), vec![line])),
            None => sections.last_mut().into_iter().for_each(|(_, lines)| lines.push(line)),
        }
    }
    for (title, lines) in sections {
        let indent = lines.iter().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
        roff.control("SH", [title.as_str()]);
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line.get(indent..).unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let copy = Command::new("copy")
            .about("Copies, from a `serve`")
            .after_help("Examples:\n    prog copy a b\n    prog copy -r c d\n\nExit codes:\n  0  done");
        Command::new("prog").about("Does things").subcommands([
            copy,
            Command::new("serve"),
            Command::new("idle"),
        ])
    }

    fn text(page: &Page) -> String {
        String::from_utf8(page.text.clone()).unwrap()
    }

    #[test]
    fn each_command_has_a_page_with_its_examples_line_by_line() {
        let pages = pages(program(), &[("~/key", "the key")]).unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.file_name.as_str()).collect();
        assert_eq!(names, ["prog.1", "prog-copy.1", "prog-serve.1", "prog-idle.1"]);
        let copy = text(&pages[1]);
        assert!(copy.contains(".SH EXAMPLES\n.nf\nprog copy a b\nprog copy \\-r c d\n.fi"), "{copy}");
        assert!(copy.contains(".SH \"EXIT STATUS\"\n.nf\n0  done\n.fi"), "{copy}");
        assert!(!copy.contains("EXTRA"), "{copy}");
    }

    #[test]
    fn the_program_names_its_files_and_each_page_those_that_belong_to_it() {
        let pages = pages(program(), &[("~/key", "the key")]).unwrap();
        let whole = text(&pages[0]);
        assert!(whole.contains(".SH FILES\n.TP\n\\fB~/key\\fR\nthe key\n"), "{whole}");
        let see =
            |page: usize| text(&pages[page]).split(".SH \"SEE ALSO\"\n.nh\n").nth(1).unwrap().to_owned();
        assert!(see(0).contains("\\fBprog\\-copy\\fR(1),\n\\fBprog\\-serve\\fR(1),\n"), "{}", see(0));
        assert_eq!(see(1).trim_end(), "\\fBprog\\fR(1),\n\\fBprog\\-serve\\fR(1)");
        assert_eq!(see(3).trim_end(), "\\fBprog\\fR(1)");
    }
}
