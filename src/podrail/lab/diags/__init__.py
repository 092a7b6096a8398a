"""What infiniband-diags prints, as facts. Pure: text in, records out.

A program that said nothing usable raises Unmeasured with what it said; nothing here guesses. The
formats are those of infiniband-diags 44, each tested on recorded output.
"""

from podrail.lab.diags.links import LinkInfo, iblinkinfo
from podrail.lab.diags.manager import (
    SM_STATES,
    Path,
    SmInfo,
    paths,
    saquery,
    sminfo,
    subnet_managers,
)
from podrail.lab.diags.nodes import Discovery, Found, Wire, ibnetdiscover, listed
from podrail.lab.diags.ports import Adapter, AdapterPort, Counters, ibstat, perfquery

__all__ = [
    "SM_STATES",
    "Adapter",
    "AdapterPort",
    "Counters",
    "Discovery",
    "Found",
    "LinkInfo",
    "Path",
    "SmInfo",
    "Wire",
    "iblinkinfo",
    "ibnetdiscover",
    "ibstat",
    "listed",
    "paths",
    "perfquery",
    "saquery",
    "sminfo",
    "subnet_managers",
]
