"""A model's configuration as Triton's interface offers it to `auto_complete_config`."""

import copy
import json

# The keys that a port may have, beside a name: which of them have to be there?
_INPUT_KEYS = {"data_type": True, "dims": True, "optional": False}
_OUTPUT_KEYS = {"data_type": True, "dims": True}

# What a configuration does not say reads so.
_DEFAULTS = {
    "platform": "",
    "backend": "python",
    "max_batch_size": 0,
    "input": [],
    "output": [],
    "instance_group": [],
    "default_model_filename": "",
    "parameters": {},
}


def given_config(load):
    """The configuration of a model as far as its file says it, with the defaults of the rest."""
    given = json.loads(load["config"] or "{}")
    config = {"name": load["name"], **copy.deepcopy(_DEFAULTS), **given}
    for port in [*config["input"], *config["output"]]:
        port.setdefault("data_type", "TYPE_INVALID")
        port.setdefault("dims", [])
    return config


class ModelConfig:
    """The configuration that `auto_complete_config` completes, and returns."""

    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        """To be read."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size):
        """ValueError if the configuration says more."""
        configured = self._model_config.get("max_batch_size", 0)
        if max_batch_size < configured:
            raise ValueError(
                f"configuration specified max_batch_size {configured}, but {self._who()} specified "
                f"max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        """ValueError if the configuration has another scheduler."""
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{scheduler}', but {self._who()} tries to set "
                    "scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input):
        """Adds an input: a dictionary of `name`, `data_type`, `dims` and, if wanted, `optional`."""
        self._add("input", input, _INPUT_KEYS)

    def add_output(self, output):
        """Adds an output: a dictionary of `name`, `data_type` and `dims`."""
        self._add("output", output, _OUTPUT_KEYS)

    def set_model_transaction_policy(self, transaction_policy_dict):
        """Takes `{"decoupled": bool}`. ValueError if the configuration says otherwise."""
        for key in transaction_policy_dict:
            if key != "decoupled":
                raise ValueError(
                    f"model transaction property in {self._who()} contains property other than 'decoupled'."
                )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        for decoupled in transaction_policy_dict.values():
            configured = policy.setdefault("decoupled", decoupled)
            if configured != decoupled:
                raise ValueError(
                    f"trying to change decoupled property in {self._who()}, which is already set to '{configured}'."
                )

    def _who(self):
        return f"auto-complete-config function for model '{self._model_config['name']}'"

    def _add(self, place, port, keys):
        """Adds a port, or completes the one of that name."""
        if "name" not in port:
            raise ValueError(f"{place} in {self._who()} is missing 'name' property.")
        name = port["name"]
        for key in port:
            if key != "name" and key not in keys:
                allowed = ", ".join(f"'{it}'" for it in ("name", *keys))
                raise ValueError(
                    f"{place} '{name}' in {self._who()} contains property other than {allowed}: '{key}'."
                )
        for key, is_needed in keys.items():
            if is_needed and key not in port:
                raise ValueError(f"{place} '{name}' in {self._who()} is missing '{key}' property.")
        ports = self._model_config.setdefault(place, [])
        for configured in ports:
            if configured["name"] == name:
                self._check(place, configured, port)
                configured.update(port)
                return
        ports.append(dict(port))

    def _check(self, place, configured, port):
        """ValueError where the configuration says of a port what its model does not."""
        name, model = port["name"], self._model_config["name"]
        data_type = configured.get("data_type", "TYPE_INVALID")
        if data_type not in ("TYPE_INVALID", port["data_type"]):
            raise ValueError(
                f"unable to load model '{model}', configuration expects datatype {data_type} for {place} '{name}', "
                f"model provides {port['data_type']}"
            )
        # Whether numbers of JSON or of Python: an int64 of the wire may be a text.
        dims = [int(it) for it in configured.get("dims") or []]
        if dims and dims != list(port["dims"]):
            raise ValueError(
                f"model '{model}', tensor '{name}': the model expects dims {port['dims']} but the model "
                f"configuration specifies dims {dims}"
            )
        if "optional" in configured and "optional" in port and configured["optional"] != port["optional"]:
            raise ValueError(
                f"model '{model}', tensor '{name}': the model expects optional {port['optional']} but the model "
                f"configuration specifies optional {configured['optional']}"
            )


def port_by_name(model_config, place, name):
    """The input or output of that name, as the configuration has it. `None` if there is none."""
    return next((it for it in model_config.get(place, ()) if it["name"] == name), None)


def is_decoupled(model_config):
    """May a request have any number of responses?"""
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)
