"""What a rule is also known as: numbers that were given up, and the names under which a rule was first proposed.

A number is never used again. `triplane explain KP01` finds NP101.
"""

# Karpenter's shortlist was merged into the layers' own numbers: a row that said the same became that row.
ALSO_KNOWN_AS: dict[str, str] = {
    "NP103": "NP101",
    "KP01": "NP101",
    "KP02": "NP102",
    "KP03": "NP106",
    "KP04": "NP107",
    "KP05": "NP124",
    "KP06": "NP125",
    "KP07": "NP104",
    "KP08": "NC205",
    "KP09": "NP112",
    "KP10": "NC201",
    "KP11": "NC204",
    "KP12": "NP111",
    "KP13": "NP109",
    "KP14": "XL601",
    "KP15": "NC206",
    "KP16": "NC212",
    "KP17": "NP114",
    "KP18": "NP118",
    "KP19": "NP126",
    "KP20": "NP119",
    "KP21": "WL507",
    "KP22": "WL523",
    "KP23": "WL524",
    "KP24": "WL521",
    "KP25": "WL525",
    "KP26": "WL505",
    "KP27": "NP120",
    "KP29": "IN701",
    "KP30": "NP117",
    "KP31": "IN706",
    "KP32": "NC213",
    "np-legacy-api": "NP121",
    "np-budget-window-inverted": "NP122",
    "np-unknown-requirement-key": "NP123",
    "nc-bottlerocket-os-disk": "NC211",
    "as-bound-ignored": "AS424",
    "as-trigger-metadata-not-string": "AS425",
    "as-idle-not-below-min": "AS426",
    "as-cron-cannot-lower": "AS427",
    "as-child-of-operator": "AS428",
    "as-resource-metric-not-cpu-memory": "AS429",
    "wl-gpu-daemonset-toleration": "WL519",
    "wl-unadvertised-extended-resource": "WL520",
    "wl-dra-on-dynamic-pool": "WL521",
    "wl-pool-selects-nonserving": "WL522",
    "qu-fraction-quota-exact": "QU323",
    "eng-boolean-in-string-field": "XL613",
    "xl-grove-replicas-below-minavailable": "XL614",
}

# Numbers that will never be a rule, and why.
RETIRED: dict[str, str] = {
    "NP103": "Balanced on a GPU pool: NP101 fails on it as on every policy but WhenEmpty, and says why",
    "KP28": "needs the state before the change: `triplane preview --diff` says when a change rolls every node",
}
