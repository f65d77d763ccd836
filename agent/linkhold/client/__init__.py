"""What lives in the training process: it holds instead of crashing.

::

    from linkhold.client import Hold

    hold = Hold.connect(checkpoint_every_steps=500)
    for step, batch in enumerate(loader):
        train(batch)
        hold.step(step)                    # blocks while training is on hold
        if hold.checkpoint_due(step):      # periodic, or now because of power or a notice
            with hold.saving():
                save(path)
            hold.upload(path, push)        # waits and retries beside training
        if hold.stop_due:
            hold.exit()                    # resumable: exit code 75
    hold.close()

With several ranks, ``Hold.connect(agree="torch")`` on each: all hold, save and stop at one step.
Without an agent on the node everything passes. Nothing here installs signal handlers (``exit()``
ignores torchrun's last signal), registers exit handlers, or uses the global random generator.
"""

from linkhold.client.hold import Hold
from linkhold.client.pause import GiveUp
from linkhold.client.upload_handle import Upload, UploadsOnHold

__all__ = ["GiveUp", "Hold", "Upload", "UploadsOnHold"]
