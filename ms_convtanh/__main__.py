"""python -m ms_convtanh: the ms-convtanh command."""

from ms_convtanh.cli import main

main(prog_name="ms-convtanh")
