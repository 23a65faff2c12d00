// Delivers the kernel's messages to a model whose module loads late. anywidget waits two seconds for the module. On a busy
// machine it gives up then, and a widget that is drawn afterwards never receives a message of the kernel.

const NOTHING = { content: { data: { method: "custom", content: {} } }, buffers: [] };

// Keep unchanged values, because others refer to these objects.
function onlyNew(real, { content }) {
  const { state } = content.data;
  for (const [name, value] of Object.entries(state ?? {})) {
    if (JSON.stringify(value) === JSON.stringify(real.get(name))) delete state[name];
  }
}

async function listenAgain(model) {
  const real = await model.widget_manager?.get_model?.(model.get("comm_name"));
  if (!real?.comm?.on_msg) return;
  try {
    await real._handle_comm_msg(NOTHING);
  } catch {
    const { _handle_comm_msg: handle } = Object.getPrototypeOf(Object.getPrototypeOf(real));
    real.comm.on_msg((message) => {
      onlyNew(real, message);
      return handle.call(real, message);
    });
    real.comm.send({ method: "request_state" }, {}); // the messages sent in the meantime
  }
}

// A place shows a model once, even if it is asked again after a late module has loaded.
const shown = new WeakMap();

function listening({ initialize, render }) {
  return {
    render: async (given) => {
      const close = shown.get(given.el);
      close?.();
      given.el.replaceChildren();
      const closeNow = await render(given);
      shown.set(given.el, closeNow);
      return closeNow;
    },
    initialize: async (given) => {
      const close = await initialize?.(given);
      setTimeout(() => listenAgain(given.model), 0);
      return close;
    },
  };
}

