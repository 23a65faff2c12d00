"""The table of displays: which function of a higher package shows a value of a lower one.

This is the only place where a lower package reaches a higher one (`kit.core.display`). A function is imported when it
is called (`kit.core.lazily`), so that `import kit` stays light and the lab runs without widgets and plots.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kit.core.display import provide
from kit.core.lazily import offer

if TYPE_CHECKING:
    from kit.draw.page.page import scenario_pages as scenario_pages
    from kit.draw.stage.frames import lab_svg as lab_svg
    from kit.draw.views.answer import answer_dot as answer_dot
    from kit.draw.views.answer import answer_svg as answer_svg
    from kit.draw.views.chains import chains_svg as chains_svg
    from kit.draw.views.checkpoints.reports import advice_html as advice_html
    from kit.draw.views.checkpoints.reports import checkpoint_diff_html as checkpoint_diff_html
    from kit.draw.views.checkpoints.reports import checkpoint_html as checkpoint_html
    from kit.draw.views.checkpoints.reports import plan_html as plan_html
    from kit.draw.views.checkpoints.reports import restore_check_html as restore_check_html
    from kit.draw.views.checkpoints.reports import storage_html as storage_html
    from kit.draw.views.checkpoints.reports import verification_html as verification_html
    from kit.draw.views.checkpoints.state_html import state_html as state_html
    from kit.draw.views.lab_cards import block_run_html as block_run_html
    from kit.draw.views.lab_cards import step_html as step_html
    from kit.why import why as why
    from kit.why.phases import phases as phases
    from widgets.explorer.explorer import show as show

offer(__name__)
provide(sys.modules[__name__])

if "IPython" in sys.modules:
    from kit.tracebacks import install

    install()
