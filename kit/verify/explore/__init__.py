"""Every schedule of a small job: `explore` tries all of them, and finds the shortest run that violates a property."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.verify.explore.exploration import Counterexample as Counterexample
    from kit.verify.explore.exploration import Exploration as Exploration
    from kit.verify.explore.exploration import expected_output as expected_output
    from kit.verify.explore.exploration import explore as explore
    from kit.verify.explore.properties import Property as Property
    from kit.verify.explore.properties import Situation as Situation
    from kit.verify.explore.properties import all_acknowledged as all_acknowledged
    from kit.verify.explore.properties import always as always
    from kit.verify.explore.properties import comes_to_an_end as comes_to_an_end
    from kit.verify.explore.properties import complete_checkpoints as complete_checkpoints
    from kit.verify.explore.properties import consistent_checkpoints as consistent_checkpoints
    from kit.verify.explore.properties import eventually as eventually
    from kit.verify.explore.properties import exactly_once as exactly_once
    from kit.verify.explore.properties import finishes as finishes
    from kit.verify.explore.properties import ids_grow as ids_grow
    from kit.verify.explore.properties import no_duplicates as no_duplicates
    from kit.verify.explore.properties import no_loss as no_loss
    from kit.verify.explore.properties import nothing_is_left as nothing_is_left
    from kit.verify.explore.properties import others_keep_running as others_keep_running
    from kit.verify.explore.properties import published_is_covered as published_is_covered
    from kit.verify.explore.properties import sometimes as sometimes

_offer(__name__)
