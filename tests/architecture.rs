//! The floors of the house, held: who may import whom, and what is not done where.
//!
//! The sources are read as tokens, without comments, strings and `#[cfg(test)]`
//! items. A new room needs a floor in [`ROOMS`]; a new ban is one line in [`BANS`].

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The rooms and their floors. A room imports only from floors below its own.
const ROOMS: [(&str, u8); 16] = [
    ("units", 0),
    ("clock", 0),
    ("names", 0),
    ("algorithms", 1),
    ("policy", 1),
    ("counters", 2),
    ("rules", 2),
    ("engine", 3),
    ("sync", 4),
    ("protocol", 4),
    ("server", 5),
    ("simulation", 5),
    ("client", 5),
    ("app", 6),
    ("lib", 7),
    ("main", 7),
];

/// The one import on the same floor: the clock tells the time in `units`' words.
const NEIGHBOURS: [(&str, &str); 1] = [("clock", "units")];

/// Rooms that are pure: numbers in, numbers out.
const PURE: &[&str] = &["algorithms", "policy"];
/// Rooms that may wait.
const WAITING: &[&str] = &["sync", "server", "client", "app", "main"];

/// What is longer holds two ideas.
const MOST_LINES: usize = 450;

/// Where a ban holds.
enum Rooms {
    In(&'static [&'static str]),
    OutOf(&'static [&'static str]),
}
use Rooms::{In, OutOf};

/// Paths that some rooms must not use, and why not.
const BANS: [(&[&str], Rooms, &str); 15] = [
    (
        &["crate::clock", "std::time"],
        In(PURE),
        "time is an argument there",
    ),
    (
        &["crate::rules"],
        In(&["sync"]),
        "the sync knows limits, not rules",
    ),
    (
        &["crate::sync"],
        In(&["server"]),
        "a request that must wait for the store waits at the engine's seam",
    ),
    (&["redis"], OutOf(&["sync"]), "one room talks to the store"),
    (
        &["tokio", "tokio_util", "tokio_stream"],
        OutOf(WAITING),
        "only these rooms wait",
    ),
    (
        &["std::sync", "core::sync", "alloc::sync"],
        In(PURE),
        "pure code shares nothing",
    ),
    (
        &["crossbeam", "dashmap", "arc_swap"],
        In(PURE),
        "pure code shares nothing",
    ),
    (
        &["std::fs", "std::io", "std::net", "std::os"],
        In(PURE),
        "pure code does no I/O",
    ),
    (
        &["std::env", "std::process", "std::thread"],
        In(PURE),
        "pure code does no I/O",
    ),
    (
        &["std::net::TcpStream", "std::net::TcpListener"],
        In(&["protocol"]),
        NO_SOCKETS,
    ),
    (
        &["std::net::UdpSocket", "std::os::unix::net", "socket2"],
        In(&["protocol"]),
        NO_SOCKETS,
    ),
    (
        &["hyper", "hyper_util", "http_body_util", "axum"],
        In(&["engine"]),
        NO_WIRE,
    ),
    (&["http", "serde_json"], In(&["engine"]), NO_WIRE),
    (
        &["std::process::exit", "std::process::abort"],
        OutOf(&["main"]),
        "only main ends it",
    ),
    (&["std::intrinsics::abort"], OutOf(&[]), "only main ends it"),
];
const NO_SOCKETS: &str = "the protocol is bytes in, bytes out";
const NO_WIRE: &str = "the engine knows no wire format";

/// The entries of the repository's top level, and those that may be missing.
const TOP: [&str; 12] = [
    ".ci",
    ".clippy.toml",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "benches",
    "config",
    "lua",
    "rustfmt.toml",
    "src",
    "tests",
];
const TOP_OPTIONAL: [&str; 3] = [".git", "LICENSE", "target"];

#[test]
fn the_sources_keep_the_floors_and_the_bans() {
    let files = sources("src");
    assert!(files.len() > 10, "the sources were not found");
    report(&house_faults(&files));
}

#[test]
fn nothing_is_unsafe_in_tests_and_benches_either() {
    let files = [sources("tests"), sources("benches")].concat();
    assert!(
        files
            .iter()
            .any(|file| file.path == "tests/architecture.rs")
    );
    let faults: Vec<Fault> = files
        .iter()
        .flat_map(|file| match file.text.parse() {
            Ok(stream) => unsafe_words(file, &flat_with_tests(stream)),
            Err(_) => vec![unreadable(file)],
        })
        .collect();
    report(&faults);
}

#[test]
fn the_top_level_holds_nothing_but_what_was_agreed() {
    let found = top_level();
    let agreed: BTreeSet<String> = TOP
        .iter()
        .chain(&TOP_OPTIONAL)
        .map(|s| (*s).into())
        .collect();
    let more: Vec<_> = found.difference(&agreed).collect();
    assert!(more.is_empty(), "not agreed at the top level: {more:?}");
}

#[test]
fn the_top_level_holds_all_that_was_agreed() {
    let found = top_level();
    let missing: Vec<_> = TOP.iter().filter(|name| !found.contains(**name)).collect();
    assert!(missing.is_empty(), "missing at the top level: {missing:?}");
}

fn top_level() -> BTreeSet<String> {
    let entries = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// A source file, its path from the repository's root.
#[derive(Clone, Debug)]
struct Source {
    path: String,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    path: String,
    line: usize,
    what: String,
    why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.what, self.why
        )
    }
}

fn report(faults: &[Fault]) {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} faults:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

fn sources(dir: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut dirs, mut files) = (vec![root.join(dir)], Vec::<PathBuf>::new());
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: &PathBuf| Source {
        path: path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned(),
        text: std::fs::read_to_string(path).unwrap(),
    };
    files.iter().map(read).collect()
}

// ---- Tokens ----

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Literal,
    Punct,
    Open,
    Close,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    text: String,
    line: usize,
}

/// What is left of a file without its tests.
#[derive(Default)]
struct Production {
    tokens: Vec<Token>,
    /// Modules in files of their own that are compiled for tests only.
    test_modules: Vec<String>,
    /// How many lines the bodies of test-only items take.
    test_lines: usize,
}

impl Production {
    fn add(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            if is_test_only(&trees[at..]) {
                at = self.skip_item(&trees, at);
                continue;
            }
            self.add_tree(&trees[at]);
            at += 1;
        }
    }

    fn add_tree(&mut self, tree: &TokenTree) {
        let mut push = |kind, text: String, line| self.tokens.push(Token { kind, text, line });
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(word) => push(Kind::Word, word.to_string(), line),
            TokenTree::Literal(literal) => push(Kind::Literal, literal.to_string(), line),
            TokenTree::Punct(punct) => push(Kind::Punct, punct.as_char().to_string(), line),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(Kind::Open, open.into(), line);
                self.add(group.stream());
                let line = group.span_close().end().line;
                self.tokens.push(Token {
                    kind: Kind::Close,
                    text: close.into(),
                    line,
                });
            }
        }
    }

    /// Skips the test-only item that begins with an attribute at `at`.
    fn skip_item(&mut self, trees: &[TokenTree], at: usize) -> usize {
        let line = trees[at].span().start().line;
        let mut words = Vec::new();
        for (index, tree) in trees.iter().enumerate().skip(at) {
            match tree {
                TokenTree::Ident(word) => words.push(word.to_string()),
                TokenTree::Group(group)
                    if group.delimiter() == Delimiter::Brace && !ends_with_semicolon(&words) =>
                {
                    self.test_lines += group.span_close().end().line + 1 - line;
                    return index + 1;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    if let Some(module) = words.iter().position(|word| word == "mod") {
                        self.test_modules.extend(words.get(module + 1).cloned());
                    }
                    return index + 1;
                }
                _ => {}
            }
        }
        trees.len()
    }
}

/// Whether `#[cfg(test)]`, or another `cfg` that needs `test`, begins here.
fn is_test_only(trees: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = trees else {
        return false;
    };
    let text = attribute.stream().to_string().replace(' ', "");
    let needs_test = text
        .strip_prefix("cfg(")
        .is_some_and(|rest| rest.starts_with("test)") || rest.starts_with("all(test,"));
    hash.as_char() == '#' && needs_test
}

/// Whether the item that begins with these words ends at a semicolon and not with
/// its first braces.
fn ends_with_semicolon(words: &[String]) -> bool {
    let mut words = words
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "pub");
    match words.next() {
        Some("use" | "static" | "type" | "let") => true,
        Some("const") => !matches!(words.next(), Some("fn" | "unsafe" | "async" | "extern")),
        _ => false,
    }
}

/// All tokens, tests included.
fn flat_with_tests(stream: TokenStream) -> Vec<Token> {
    let mut all = Production::default();
    let mut streams = vec![stream];
    while let Some(stream) = streams.pop() {
        for tree in stream {
            match tree {
                TokenTree::Group(group) => streams.push(group.stream()),
                other => all.add_tree(&other),
            }
        }
    }
    all.tokens
}

// ---- Paths ----

/// A path as written (imports apart, one for each name) and on which line.
#[derive(Clone, Debug)]
struct Named {
    path: Vec<String>,
    /// The module that it is written in, from the crate's root.
    module: Vec<String>,
    line: usize,
}

#[derive(Default)]
struct Paths {
    named: Vec<Named>,
    /// What an imported or declared name stands for in this file.
    aliases: HashMap<String, Vec<String>>,
}

impl Paths {
    fn of(module: &[String], tokens: &[Token]) -> Paths {
        let mut paths = Paths::default();
        let mut module = module.to_vec();
        // Inline modules that the scan is inside of: the depth of their braces.
        let (mut depth, mut inside) = (0, Vec::new());
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        let mut at = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            match (token.kind, token.text.as_str()) {
                (Kind::Open, _) => depth += 1,
                (Kind::Close, _) => {
                    if inside.last() == Some(&depth) {
                        inside.pop();
                        module.pop();
                    }
                    depth -= 1;
                }
                (Kind::Word, "mod") if text(at + 2) == "{" => {
                    module.push(text(at + 1).to_owned());
                    inside.push(depth + 1);
                    at += 1;
                }
                (Kind::Word, "mod") if text(at + 2) == ";" => {
                    let child = [&module[..], &[text(at + 1).to_owned()]].concat();
                    let path = [vec!["crate".to_owned()], child].concat();
                    paths.aliases.insert(text(at + 1).to_owned(), path);
                    at += 1;
                }
                // `use<'a>` in a type imports nothing.
                (Kind::Word, "use") if text(at + 1) != "<" => {
                    at = paths.import(tokens, at + 1, Vec::new(), &module);
                    continue;
                }
                (Kind::Word, _) if begins_a_path(tokens, at) => {
                    let mut path = vec![token.text.clone()];
                    while text(at + 1) == ":"
                        && text(at + 2) == ":"
                        && tokens
                            .get(at + 3)
                            .is_some_and(|next| next.kind == Kind::Word)
                    {
                        path.push(text(at + 3).to_owned());
                        at += 3;
                    }
                    let (module, line) = (module.clone(), token.line);
                    paths.named.push(Named { path, module, line });
                }
                _ => {}
            }
            at += 1;
        }
        paths
    }

    /// Reads a `use` tree that begins at `at`; answers where it ends.
    fn import(
        &mut self,
        tokens: &[Token],
        mut at: usize,
        mut path: Vec<String>,
        module: &[String],
    ) -> usize {
        while let Some(token) = tokens.get(at) {
            match (token.kind, token.text.as_str()) {
                (Kind::Punct, ":") => {}
                (Kind::Word, "as") => {
                    if let (Some(alias), Some(named)) = (tokens.get(at + 1), self.named.last()) {
                        self.aliases.insert(alias.text.clone(), named.path.clone());
                    }
                    at += 1;
                }
                (Kind::Word, _) | (Kind::Punct, "*") => {
                    if token.text != "self" || path.is_empty() {
                        path.push(token.text.clone());
                    }
                    let goes_on = tokens.get(at + 1).is_some_and(|next| next.text == ":");
                    if !goes_on {
                        let module = module.to_vec();
                        let last = path.last().cloned().unwrap_or_default();
                        self.aliases.insert(last, path.clone());
                        self.named.push(Named {
                            path: path.clone(),
                            module,
                            line: token.line,
                        });
                    }
                }
                (Kind::Open, _) => {
                    at += 1;
                    while tokens.get(at).is_some_and(|next| next.kind != Kind::Close) {
                        at = self.import(tokens, at, path.clone(), module);
                        if tokens.get(at).is_some_and(|next| next.text == ",") {
                            at += 1;
                        }
                    }
                }
                _ => return at,
            }
            at += 1;
        }
        at
    }

    /// The path from a crate's name, as far as this file tells.
    fn resolve(&self, named: &Named) -> Vec<String> {
        let first = named.path.first().map_or("", String::as_str);
        let mut path = match self.aliases.get(first) {
            Some(meant) => [&meant[..], &named.path[1..]].concat(),
            None => named.path.clone(),
        };
        if path.first().is_some_and(|first| first == "tidegate") {
            path[0] = "crate".into();
        }
        if !path
            .first()
            .is_some_and(|first| first == "self" || first == "super")
        {
            return path;
        }
        let mut base = named.module.clone();
        let steps = path
            .iter()
            .take_while(|step| *step == "self" || *step == "super")
            .count();
        for step in path.drain(..steps) {
            if step == "super" {
                base.pop();
            }
        }
        [vec!["crate".to_owned()], base, path].concat()
    }
}

/// Whether a word begins a path: it is no field, method, lifetime, or later part.
fn begins_a_path(tokens: &[Token], at: usize) -> bool {
    let before = |back: usize| {
        let token = at.checked_sub(back).and_then(|index| tokens.get(index));
        token.map_or("", |token| token.text.as_str())
    };
    match before(1) {
        "'" => false,
        "." => before(2) == ".",
        // A path from the root, such as `::redis`, and not the rest of `<T>::new`.
        ":" if before(2) == ":" => {
            let last = at.checked_sub(3).and_then(|index| tokens.get(index));
            !last.is_some_and(|t| t.text == ">" || matches!(t.kind, Kind::Word | Kind::Close))
        }
        _ => true,
    }
}

// ---- The checks ----

fn house_faults(files: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut read = Vec::new();
    let mut test_modules = Vec::new();
    for file in files {
        let Ok(stream) = file.text.parse::<TokenStream>() else {
            faults.push(unreadable(file));
            continue;
        };
        let mut production = Production::default();
        production.add(stream);
        let module = module_of(&file.path);
        for name in &production.test_modules {
            test_modules.push([&module[..], std::slice::from_ref(name)].concat());
        }
        read.push((file, module, production));
    }
    for (file, module, production) in &read {
        if file.path.ends_with("/mod.rs") {
            faults.push(fault(file, 1, "mod.rs", "a room is `foo.rs` beside `foo/`"));
        }
        if test_modules.iter().any(|tests| module.starts_with(tests)) {
            continue;
        }
        faults.extend(file_faults(file, module, production));
    }
    faults.sort();
    faults.dedup();
    faults
}

fn file_faults(file: &Source, module: &[String], production: &Production) -> Vec<Fault> {
    let room = room_of(&file.path);
    let mut faults = unsafe_words(file, &production.tokens);
    let lines = file
        .text
        .lines()
        .count()
        .saturating_sub(production.test_lines);
    if lines > MOST_LINES {
        let what = format!("{lines} lines");
        faults.push(fault(
            file,
            lines,
            &what,
            "at most 450 without the tests: one idea a file",
        ));
    }
    let Some(floor) = floor_of(&room) else {
        faults.push(fault(
            file,
            1,
            &format!("room {room}"),
            "it has no floor in ROOMS",
        ));
        return faults;
    };
    faults.extend(word_faults(file, &room, &production.tokens));
    let paths = Paths::of(module, &production.tokens);
    for named in &paths.named {
        let path = paths.resolve(named);
        faults.extend(path_faults(file, &room, floor, &path, named.line));
    }
    faults
}

fn path_faults(file: &Source, room: &str, floor: u8, path: &[String], line: usize) -> Vec<Fault> {
    let text = path.join("::");
    let mut faults = Vec::new();
    if let [root, other, ..] = path
        && root == "crate"
        && other != room
        && floor < 7
    {
        let why = match floor_of(other) {
            Some(7) | None => Some("no room that can be imported from".to_owned()),
            Some(_) if NEIGHBOURS.contains(&(room, other)) => None,
            Some(below) if below < floor => None,
            Some(its) => Some(format!(
                "`{room}` (floor {floor}) imports only from floors below its own, `{other}` is on {its}"
            )),
        };
        faults.extend(why.map(|why| fault(file, line, &text, &why)));
    }
    for (banned, rooms, why) in &BANS {
        let holds = match rooms {
            In(rooms) => rooms.contains(&room),
            OutOf(rooms) => !rooms.contains(&room),
        };
        let begins = |ban: &str| text == ban || text.starts_with(&format!("{ban}::"));
        if holds && banned.iter().any(|ban| begins(ban)) {
            faults.push(fault(file, line, &text, &format!("not in `{room}`: {why}")));
        }
    }
    let reads_time = text.ends_with("SystemTime::now") || text.ends_with("Instant::now");
    let is_tokios = text.starts_with("tokio::") && floor >= 4;
    if reads_time && room != "clock" && !is_tokios {
        faults.push(fault(
            file,
            line,
            &text,
            "only `clock` reads the system's time",
        ));
    }
    if path.len() > 1 && matches!(path.last().map(String::as_str), Some("unwrap" | "expect")) {
        faults.extend(no_panic(file, room, line, &text));
    }
    faults
}

fn word_faults(file: &Source, room: &str, tokens: &[Token]) -> Vec<Fault> {
    let mut faults = Vec::new();
    // A panic at compile time is an error of the compiler.
    let mut compile_time = 0;
    for (at, token) in tokens.iter().enumerate() {
        compile_time = compile_time.max(end_of_constant(tokens, at));
        let (text, line) = (token.text.as_str(), token.line);
        let after = |on: usize| tokens.get(at + on).map_or("", |token| token.text.as_str());
        // After one dot, not after the two of a range.
        let dotted = at > 0 && tokens[at - 1].text == ".";
        let is_method = dotted && (at < 2 || tokens[at - 2].text != ".");
        let pure = PURE.contains(&room);
        match (token.kind, text) {
            (Kind::Word, "async" | "await") if !WAITING.contains(&room) => {
                faults.push(fault(
                    file,
                    line,
                    text,
                    &format!("nothing waits in `{room}`"),
                ));
            }
            (Kind::Word, "panic" | "todo" | "unimplemented" | "dbg")
                if after(1) == "!" && matches!(after(2), "(" | "[" | "{") && at >= compile_time =>
            {
                faults.extend(no_panic(file, room, line, &format!("{text}!")));
            }
            (Kind::Word, "unwrap" | "expect" | "unwrap_err" | "expect_err")
                if is_method && after(1) == "(" && at >= compile_time =>
            {
                faults.extend(no_panic(file, room, line, &format!(".{text}()")));
            }
            (Kind::Word, "f32" | "f64") if room == "algorithms" => {
                faults.push(fault(file, line, text, "no float decides a verdict"));
            }
            (Kind::Literal, _) if room == "algorithms" && is_float(text) && !is_method => {
                faults.push(fault(file, line, text, "no float decides a verdict"));
            }
            (Kind::Word, _) if pure && text.starts_with("Atomic") => {
                faults.push(fault(file, line, text, "pure code shares nothing"));
            }
            _ => {}
        }
    }
    faults
}

/// Where the constant or the `const` block that begins at `at` ends; 0 if none does.
fn end_of_constant(tokens: &[Token], at: usize) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let is_parameter = at > 0 && matches!(text(at - 1), "<" | ",");
    let is_constant = text(at + 2) == ":" && !is_parameter;
    if text(at) != "const" || !(is_constant || text(at + 1) == "{") {
        return 0;
    }
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        let closes = token.kind == Kind::Close && !is_constant;
        if depth == 0 && (closes || token.text == ";") {
            return index;
        }
    }
    tokens.len()
}

fn unsafe_words(file: &Source, tokens: &[Token]) -> Vec<Fault> {
    tokens
        .iter()
        .filter(|token| token.kind == Kind::Word && token.text == "unsafe")
        .map(|token| fault(file, token.line, "unsafe", "nowhere in this house"))
        .collect()
}

fn no_panic(file: &Source, room: &str, line: usize, what: &str) -> Option<Fault> {
    (room != "main").then(|| fault(file, line, what, "production code returns its errors"))
}

fn is_float(literal: &str) -> bool {
    let digits = literal.starts_with(|c: char| c.is_ascii_digit());
    let radix = ["0x", "0b", "0o"]
        .iter()
        .any(|start| literal.starts_with(start));
    let decimal = literal.contains(['.', 'e', 'E']) && !literal.ends_with("size");
    digits && !radix && (decimal || literal.ends_with("f32") || literal.ends_with("f64"))
}

fn unreadable(file: &Source) -> Fault {
    fault(file, 1, "the file", "it cannot be read as Rust")
}

fn fault(file: &Source, line: usize, what: &str, why: &str) -> Fault {
    Fault {
        path: file.path.clone(),
        line,
        what: format!("`{what}`"),
        why: why.to_owned(),
    }
}

fn floor_of(room: &str) -> Option<u8> {
    ROOMS
        .iter()
        .find(|(name, _)| *name == room)
        .map(|(_, floor)| *floor)
}

/// `src/sync/batch.rs` is in the room `sync`.
fn room_of(path: &str) -> String {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let room = inside.split('/').next().unwrap_or_default();
    room.trim_end_matches(".rs").to_owned()
}

/// `src/sync/batch.rs` is the module `sync::batch`; `src/lib.rs` is the root.
fn module_of(path: &str) -> Vec<String> {
    let inside = path
        .strip_prefix("src/")
        .unwrap_or(path)
        .trim_end_matches(".rs");
    let steps = inside
        .split('/')
        .filter(|step| !matches!(*step, "lib" | "main" | "mod"));
    steps.map(str::to_owned).collect()
}

// ---- The checker, checked: it must be able to fail ----

/// The faults of one fabricated file, each as `line what`.
fn found(path: &str, text: &str) -> Vec<String> {
    let file = Source {
        path: path.into(),
        text: text.into(),
    };
    let faults = house_faults(&[file]);
    faults
        .iter()
        .map(|fault| format!("{} {}", fault.line, fault.what))
        .collect()
}

/// `path | source | line fault`, with `\n` in the source for the end of a line.
const WRONG: &str = r#"
src/engine.rs | use crate::server::Server; | 1 `crate::server::Server`
src/units.rs | \nuse crate::clock; | 2 `crate::clock`
src/counters/cell.rs | use crate::{units::Key, rules}; | 1 `crate::rules`
src/counters/cell.rs | use super::super::rules::Rule; | 1 `crate::rules::Rule`
src/counters.rs | use super::rules::{self}; | 1 `crate::rules`
src/engine.rs | fn f(x: crate::app::App) {} | 1 `crate::app::App`
src/engine.rs | fn f() { g(::tidegate::app::run()) } | 1 `crate::app::run`
src/engine.rs | fn f() { log!("{}", crate::sync::lag()) } | 1 `crate::sync::lag`
src/engine.rs | mod a { mod b { use super::super::super::app; } } | 1 `crate::app`
src/sync.rs | use crate::protocol::Frame; | 1 `crate::protocol::Frame`
src/rules.rs | use crate::counters as c; | 1 `crate::counters`
src/engine.rs | use crate::*; | 1 `crate::*`
src/engine.rs | use crate::main; | 1 `crate::main`
src/cellar.rs | fn f() {} | 1 `room cellar`

src/sync.rs | use crate::rules::Rule; | 1 `crate::rules::Rule`
src/server.rs | use crate::sync::Sync; | 1 `crate::sync::Sync`
src/server/http.rs | fn f(c: redis::Client) {} | 1 `redis::Client`
src/app.rs | use ::redis::Client; | 1 `redis::Client`
src/counters.rs | use tokio::sync::mpsc; | 1 `tokio::sync::mpsc`
src/protocol.rs | tokio::select! {} | 1 `tokio::select`
src/engine.rs | #[tokio::test] fn f() {} | 1 `tokio::test`
src/protocol.rs | use std::net::{IpAddr, TcpStream}; | 1 `std::net::TcpStream`
src/protocol.rs | use std::os::unix; type S = unix::net::Stream; | 1 `std::os::unix::net::Stream`
src/engine.rs | use serde_json::Value; | 1 `serde_json::Value`
src/algorithms.rs | use std::sync::Arc; | 1 `std::sync::Arc`
src/algorithms.rs | use crate::clock::Clock; | 1 `crate::clock::Clock`
src/policy.rs | use std::io::Read; | 1 `std::io::Read`
src/algorithms/log.rs | static A: AtomicU64 = x(); | 1 `AtomicU64`
src/algorithms/log.rs | fn f(x: f64) {} | 1 `f64`
src/algorithms/log.rs | const X: T = 1.5; | 1 `1.5`
src/algorithms/log.rs | const X: T = 1e9 as u64; | 1 `1e9`

src/engine.rs | fn f() { let t = Instant::now(); } | 1 `Instant::now`
src/server.rs | use std::time as t; fn f() { t::SystemTime::now() } | 1 `std::time::SystemTime::now`
src/app.rs | use std::time::Instant as I; fn f() { x.map(I::now) } | 1 `std::time::Instant::now`
src/engine.rs | async fn f() {} | 1 `async`
src/protocol.rs | fn f() { x.await } | 1 `await`

src/app.rs | fn f() {\n x.unwrap(); } | 2 `.unwrap()`
src/app.rs | fn f() { x\n.expect("x"); } | 2 `.expect()`
src/app.rs | fn f() { x.map(Option::unwrap) } | 1 `Option::unwrap`
src/app.rs | fn f() { panic!("x") } | 1 `panic!`
src/app.rs | fn f() { todo!() } | 1 `todo!`
src/app.rs | fn f() { unimplemented!() } | 1 `unimplemented!`
src/app.rs | fn f() { dbg!(x) } | 1 `dbg!`
src/app.rs | use std::process; fn f() { process::exit(1) } | 1 `std::process::exit`
src/lib.rs | fn f() { x.unwrap(); } | 1 `.unwrap()`
src/app.rs | const fn f() { x.unwrap(); } | 1 `.unwrap()`
src/app.rs | fn f<const N: usize>() { x.unwrap(); } | 1 `.unwrap()`
src/app.rs | const N: [u8; 2] = f().unwrap(); fn f() { y.unwrap() } | 1 `.unwrap()`
src/app.rs | fn f() { const { g() }; y.unwrap() } | 1 `.unwrap()`

src/main.rs | fn f() { unsafe { g() } } | 1 `unsafe`
src/sync/mod.rs | fn f() {} | 1 `mod.rs`
src/sync.rs | fn f() { " | 1 `the file`

src/app.rs | #[cfg(test)] use a::{b}; fn f() { todo!() } | 1 `todo!`
src/app.rs | #[cfg(test)] const fn t() {} fn f() { todo!() } | 1 `todo!`
src/app.rs | #[cfg(test)] mod tests {} fn f() { todo!() } | 1 `todo!`
src/app.rs | #[cfg(not(test))] fn f() { todo!() } | 1 `todo!`
src/app.rs | #[cfg(any(test, unix))] fn f() { todo!() } | 1 `todo!`
"#;

/// `path | source`, without a fault.
const RIGHT: &str = r#"
src/engine.rs | use crate::{counters::Cell, rules::{Rule, RuleSet as Set}};
src/engine.rs | use crate::engine::Request; pub(crate) fn f() {}
src/engine/request.rs | use super::decision::Decision; use self::x::Y;
src/clock.rs | use crate::units::Nanos; fn f() { Instant::now() }
src/sync/redis.rs | use redis::Client; async fn f() { x.await }
src/sync.rs | fn f() { tokio::time::Instant::now() }
src/app.rs | mod redis; fn f() { redis::connect(); super::server::run() }
src/protocol.rs | use std::net::IpAddr;
src/engine.rs | // use crate::app;\n/// [`crate::app`]\nfn f() { "crate::app .unwrap()"; }
src/engine.rs | fn f() { x.unwrap_or_default(); self.redis.tokio(); if panic != x {} }
src/engine.rs | fn f<'tokio>(x: &'tokio u8) -> impl T + use<'tokio> {}
src/algorithms.rs | const A: u64 = 0x1e5; const B: usize = 1usize; fn f(x: T) { x.0.1 }
src/sync.rs | const N: NonZeroU32 = NonZeroU32::new(5).unwrap(); fn f() { const { N.expect("x") } }
src/main.rs | fn main() { tidegate::app::run().unwrap(); std::process::exit(1) }
src/engine.rs | #[cfg(test)]\nmod tests { use crate::app; fn f() { x.unwrap() } }
src/engine.rs | #[cfg(test)] use crate::app::{A}; #[cfg(test)] fn f() { todo!() }
src/engine.rs | #[cfg(all(test, unix))] #[allow(x)] pub(crate) mod t { use crate::app; }
"#;

fn cases(table: &str) -> impl Iterator<Item = Vec<String>> {
    let lines = table.lines().filter(|line| !line.is_empty());
    lines.map(|line| {
        line.split(" | ")
            .map(|part| part.replace("\\n", "\n"))
            .collect()
    })
}

#[test]
fn the_checker_finds_each_kind_of_fault() {
    assert!(cases(WRONG).count() > 50);
    for case in cases(WRONG) {
        assert_eq!(found(&case[0], &case[1]), [case[2].as_str()], "{case:?}");
    }
}

#[test]
fn the_checker_leaves_alone_what_is_allowed() {
    assert!(cases(RIGHT).count() > 15);
    for case in cases(RIGHT) {
        assert_eq!(found(&case[0], &case[1]), [""; 0], "{case:?}");
    }
}

#[test]
fn lines_are_counted_without_the_tests() {
    let production = "\n".repeat(450);
    let tests = format!("{production}#[cfg(test)] mod tests {{\n\n}}");
    assert_eq!(found("src/sync.rs", &tests), [""; 0]);
    assert_eq!(
        found("src/sync.rs", &format!("\n{tests}")),
        ["451 `451 lines`"]
    );
    assert_eq!(
        found("src/sync.rs", &format!("{production}\n")),
        ["451 `451 lines`"]
    );
}

#[test]
fn a_file_of_tests_is_no_production_code() {
    let file = |path: &str, text: &str| Source {
        path: path.into(),
        text: text.into(),
    };
    let tests = "use crate::app; fn f() { x.unwrap() }";
    let files = [
        file("src/engine.rs", "#[cfg(test)] mod tests; mod testing;"),
        file("src/engine/tests.rs", tests),
        file("src/engine/tests/deep.rs", tests),
    ];
    assert_eq!(house_faults(&files), []);
    let other = [files[0].clone(), file("src/engine/testing.rs", tests)];
    assert_eq!(house_faults(&other).len(), 2);
}

#[test]
fn a_fault_says_where_what_and_why() {
    let file = Source {
        path: "src/rules.rs".into(),
        text: "\nuse crate::engine::X;".into(),
    };
    assert_eq!(
        house_faults(&[file])[0].to_string(),
        "src/rules.rs:2: `crate::engine::X`: `rules` (floor 2) imports only from floors \
         below its own, `engine` is on 3"
    );
}
