"""Both hosts see to every duty, and every command that is carried out has one function."""

from __future__ import annotations

from kit.core.protocol.duties import Duty
from kit.core.protocol.vocabulary import COMMANDS
from kit.files.job_files import JobFiles
from kit.files.task_files import TaskFiles
from kit.hosts.lab.world.world import World
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.slot.task_host import TaskHost

CARRIED_OUT = (Duty.WORK, Duty.CLEAN_UP, Duty.READ_ROWS, Duty.AWAIT_ROWS, Duty.WRITE_ROWS)


def test_the_lab_sees_to_every_duty() -> None:
    assert set(World.DUTIES) == set(Duty)


def test_spark_sees_to_every_duty_and_driver_and_slot_know_which_is_whose() -> None:
    assert set(JobDriver.DUTIES) | set(TaskHost.DUTIES) == set(Duty)
    both = set(JobDriver.DUTIES) & set(TaskHost.DUTIES)
    assert both == {Duty.OBSERVE, Duty.SET_TIMER, Duty.CANCEL_TIMER, Duty.WORK}


def test_every_command_that_is_carried_out_has_one_function() -> None:
    todo = {command for command in COMMANDS if command.duty in CARRIED_OUT}
    assert set(JobFiles._HOW) | set(TaskFiles._HOW) == todo
    assert not set(JobFiles._HOW) & set(TaskFiles._HOW)
