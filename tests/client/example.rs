//! The README's example, as it stands there.

use crate::kit::{Place, root};
use crate::run;

use std::time::Duration;
use tidegate::client::{Check, Client, Error, FailMode, Request, Source, Total};

async fn ask(socket: &str) -> Result<(), Error> {
    let client = Client::unix(socket)
        .deadline(Duration::from_secs(2))
        .fail_mode(FailMode::Open)
        .start();

    let check = Check::new("orders", "gina")
        .tier("pro")
        .cost(2)
        .id("order-7");
    let answer = client.check(&check).await?;
    assert!(answer.is_allowed() && answer.source == Source::Daemon);
    assert_eq!(answer.remaining, Some(98));
    client.settle("order-7", Total::Cost(1)).await?;

    let login = Request::new("POST", "/api/v1/auth/login").ip([203, 0, 113, 9].into());
    let answer = client.check(&login.cost(6)).await?;
    assert!(!answer.is_allowed());
    assert_eq!(answer.retry_after(), None); // more than there ever is
    Ok(())
}

#[test]
fn the_readmes_example_runs() {
    let place = Place::new();
    let config = root().join("config/tidegate.yaml");
    let directory = place.directory.path().to_str().unwrap();
    let config = config.to_str().unwrap();
    let _served = place.serve(["--config", config, "--runtime-dir", directory]);
    run(ask(place.path("resp.sock").to_str().unwrap())).unwrap();
    let example = include_str!("example.rs");
    let (_, from) = example.split_once("crate::run;\n\n").unwrap();
    let (shown, _) = from.split_once("\n#[test]").unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("```rust\n{shown}```\n")));
}
