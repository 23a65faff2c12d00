"""The faults of the lab that change what a reader of a run knows, by their names in records.

The lab declares all its faults (`kit.hosts.lab.faults.faults`), of which most show in their consequences only.
"""

from __future__ import annotations

DROP_MESSAGE = "DropMessage"
FREEZE_WORKER = "FreezeWorker"
THAW_WORKER = "ThawWorker"
