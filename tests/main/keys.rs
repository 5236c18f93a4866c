//! The keys of a chat, on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::fixtures::small_model;
use crate::harness::Workplace;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const BACKSPACE: &str = "\u{7f}";

/// What the editor shows when it begins to read a line (pasted text is told apart from now on).
const LINE_BEGINS: &str = "\u{1b}[?2004h";

/// A chat on a terminal of its own.
struct Chat {
    keyboard: File,
    /// What was shown and not waited for yet.
    shown: Arc<Mutex<String>>,
    child: Child,
    _place: Workplace,
}

impl Chat {
    fn new(flags: &str) -> Self {
        let place = Workplace::new();
        std::fs::copy(small_model(), place.path("a.gguf")).expect("the model can be copied");
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let size = Winsize {
            ws_row: 24,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).expect("it is a terminal");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let screen = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
        let screen = screen.expect("it can be opened");
        let end = || Stdio::from(screen.try_clone().expect("it can be shared"));
        let program = place.command("gristmill").get_program().to_owned();
        // It makes the terminal the one whose Ctrl-C interrupts the program.
        let child = std::process::Command::new("setsid")
            .arg("--ctty")
            .arg(program)
            .args(["run", "-m", "a.gguf", "--temp", "0"])
            .args(flags.split_whitespace())
            .current_dir(place.path("."))
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid is there");
        drop(screen);
        let keyboard = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let screen = keyboard.try_clone().expect("it can be shared");
        std::thread::spawn({
            let shown = shown.clone();
            move || watch(screen, &shown)
        });
        let chat = Chat {
            keyboard,
            shown,
            child,
            _place: place,
        };
        chat.wait_for("/help tells more");
        chat.wait_for(LINE_BEGINS);
        chat
    }

    fn press(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("somebody reads");
    }

    /// Waits until this is shown, and takes all up to its end.
    fn wait_for(&self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let mut shown = self.shown.lock().expect("nobody panicked");
            if let Some(at) = shown.find(text) {
                let rest = shown.split_off(at + text.len());
                return std::mem::replace(&mut shown, rest);
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{text:?} is not shown: {shown:?}"
            );
            drop(shown);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

/// Takes what is shown, and says where the cursor is when asked, as terminals do.
fn watch(mut screen: File, shown: &Mutex<String>) {
    let mut bytes = [0; 4096];
    // Reading fails when the program is gone.
    while let Ok(n @ 1..) = screen.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..n]);
        for _ in text.matches("\u{1b}[6n") {
            let _ = screen.write_all(b"\x1b[1;1R");
        }
        shown.lock().expect("nobody panicked").push_str(&text);
    }
}

#[test]
fn a_line_is_edited_and_ctrl_c_takes_it_back_or_leaves() {
    let mut chat = Chat::new("-n 4");
    chat.press(&format!("/cleaX{BACKSPACE}r\r"));
    chat.wait_for("the conversation is forgotten");
    chat.wait_for(LINE_BEGINS);
    chat.press(&format!("not this{CTRL_C}"));
    chat.wait_for(LINE_BEGINS);
    chat.press("/clear\r");
    chat.wait_for("the conversation is forgotten");
    chat.wait_for(LINE_BEGINS);
    chat.press(CTRL_C);
    chat.wait_for("Ctrl-C once more leaves");
    chat.wait_for(LINE_BEGINS);
    chat.press(CTRL_C);
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn a_message_of_two_lines_is_one_and_ctrl_d_ends() {
    let mut chat = Chat::new("-n 4");
    chat.press("one\\\r");
    chat.wait_for(LINE_BEGINS);
    chat.press("two\r");
    let shown = chat.wait_for("Generation:");
    assert!(!shown.contains("error"), "{shown:?}");
    chat.wait_for(LINE_BEGINS);
    chat.press("/clear\r");
    let between = chat.wait_for("the conversation is forgotten");
    assert!(!between.contains("Generation:"), "{between:?}");
    chat.wait_for(LINE_BEGINS);
    chat.press(CTRL_D);
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn ctrl_c_stops_an_answer_and_the_chat_goes_on() {
    let mut chat = Chat::new("--ignore-eos -c 100000");
    chat.press("Speak\r");
    // A long answer has many of them.
    for _ in 0..20 {
        chat.wait_for(" ");
    }
    chat.press(CTRL_C);
    chat.wait_for("ended by an interrupt");
    chat.wait_for(LINE_BEGINS);
    chat.press("/clear\r");
    chat.wait_for("the conversation is forgotten");
    chat.wait_for(LINE_BEGINS);
    chat.press(CTRL_D);
    assert_eq!(chat.exit_code(), Some(0));
}

/// Where every line goes on, a command is whole without a mark.
#[test]
fn a_command_needs_no_mark_where_lines_go_on() {
    let mut chat = Chat::new("-n 4 -mli");
    chat.press("/clear\r");
    chat.wait_for("the conversation is forgotten");
    chat.wait_for(LINE_BEGINS);
    chat.press("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
}
