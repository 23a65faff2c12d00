// A model whose module comes late still hears its kernel. anywidget waits two seconds for the module; on a busy machine
// it gives up then, and though the widget is drawn afterwards it hears nothing that the kernel says, ever.

const NOTHING = { content: { data: { method: "custom", content: {} } }, buffers: [] };

// What is as it was is left as it is: others hold on to the very object.
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
    real.comm.send({ method: "request_state" }, {}); // what was said in the meantime
  }
}

// A place shows a model once, however often it is asked to: whoever waits for a late module may ask again.
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

