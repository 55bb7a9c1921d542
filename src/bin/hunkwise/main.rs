//! The `hunkwise` command: from rollout dumps to token credit, without a line of code.

mod args;
mod credit;
mod devices;
mod loss_check;
mod profile;
mod session;
mod show;
mod summary;
mod text;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Output was written, but some input rows could not be taken, or losses differ.
const FLAGGED: u8 = 3;

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.color.write_global();
    let result = match &cli.command {
        Command::Credit(args) => credit::run(args),
        Command::Show(args) => show::run(args),
        Command::Profile(args) => profile::run(args),
        Command::LossCheck(args) => loss_check::run(args),
        Command::Devices(args) => devices::run(args),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FLAGGED),
        // The reader of our output has gone (`| head`): nothing is left to say.
        Err(hunkwise::Error::Io { source, .. })
            if source.kind() == std::io::ErrorKind::BrokenPipe =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            anstream::eprintln!(
                "{}error:{} {}",
                args::RED,
                args::RESET,
                text::plain(&error.to_string())
            );
            ExitCode::FAILURE
        }
    }
}
