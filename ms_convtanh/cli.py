"""The ms-convtanh command. Each subcommand has a module of its own, _cli_<command>.py."""

import click

from ms_convtanh._cli_bench import bench
from ms_convtanh._cli_check import check
from ms_convtanh._cli_completion import completion
from ms_convtanh._cli_config import config
from ms_convtanh._cli_explain import explain
from ms_convtanh._cli_info import info
from ms_convtanh._cli_opp import opp
from ms_convtanh._cli_profile import profile
from ms_convtanh._cli_relocate import relocate
from ms_convtanh._cli_tune import tune


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="ms_convtanh", prog_name="ms-convtanh")
def main() -> None:
    """y = tanh(conv2d(x, filter, bias)) as one operator."""


main.add_command(bench)
main.add_command(check)
main.add_command(completion)
main.add_command(config)
main.add_command(explain)
main.add_command(info)
main.add_command(opp)
main.add_command(profile)
main.add_command(relocate)
main.add_command(tune)
