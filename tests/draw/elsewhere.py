"""Every picture of a run as text, made here or in another process that knows nothing but a saved trace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kit.core.trace.trace import Trace
from kit.draw import chains_svg, film, gantt, last_frame, phases, redistribution, rescaling, space_time
from kit.draw.page.page import page_html
from tests.house.files import ROOT
from widgets import Stepper


def shown(run: Any) -> dict[str, str]:
    """Return everything that a reader sees of a run that was restored at least once."""
    stepper = Stepper(run)
    frames = [{key: value for key, value in frame.items() if key != "step"} for frame in stepper.film["frames"]]
    return {
        "chains": chains_svg(run),
        "film": json.dumps(film(run)),
        "gantt": gantt(run)._repr_svg_(),
        "last frame": last_frame(run).svg(),
        "page": page_html(run),
        "phases": phases(run).to_csv(),
        "redistribution": redistribution(run).to_csv(),
        "restore": rescaling(run).svg(),
        "space-time": space_time(run).svg(),
        "stepper": json.dumps(stepper.film | {"frames": frames}) + stepper.svg(),  # only a lab counts its steps
        "trace": run.to_pandas().to_csv() if isinstance(run, Trace) else run.trace.to_pandas().to_csv(),
    }


def shown_elsewhere(path: Path) -> dict[str, str]:
    """The same of a saved trace, in a new process."""
    command = [sys.executable, "-m", "tests.draw.elsewhere", str(path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    made: dict[str, str] = json.loads(ran.stdout)
    return made


if __name__ == "__main__":
    print(json.dumps(shown(Trace.load(sys.argv[1]))))
