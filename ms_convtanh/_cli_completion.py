"""ms-convtanh completion."""

import click
from click.shell_completion import get_completion_class

PROGRAM = "ms-convtanh"
VARIABLE = "_MS_CONVTANH_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete ms-convtanh's commands and options.

    \b
    ms-convtanh completion bash >~/.local/share/bash-completion/completions/ms-convtanh
    ms-convtanh completion zsh >"${fpath[1]}/_ms-convtanh"
    ms-convtanh completion fish >~/.config/fish/completions/ms-convtanh.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None  # click has all three
    click.echo(complete(context.find_root().command, {}, PROGRAM, VARIABLE).source())
